// Another history is dropped on the report, to be laid over the one that is shown: a page from `cuplug-trace view` takes it.
"use strict";
(() => {
  const page = JSON.parse(document.getElementById("meta").textContent);
  const told = document.getElementById("compare"), hint = page.drop
    ? "Drop another history on this page, or choose it here, to lay the two over each other."
    : "To lay another history over this one, open it with cuplug-trace view, and drop the other file on its page.";
  told.textContent = page.compare ? "Two histories are laid over each other here." : hint;
  document.getElementById("compare-bar").hidden = !page.drop;
  async function take(file) {
    if (!page.drop) { told.textContent = hint; told.scrollIntoView(); return; }
    told.textContent = `Reading ${file.name} ...`;
    told.scrollIntoView();
    try {
      const answer = await fetch(`${page.drop}&name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers: { "X-Cuplug": "1" } });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      location.href = found.page;
    } catch (error) { told.textContent = error.message; }
  }
  document.getElementById("compare-file").addEventListener("change", (event) => event.target.files[0] && take(event.target.files[0]));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); });
  window.cuplug_compare = { take };
})();
