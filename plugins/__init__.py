"""The plugin system: hook specifications, the manager, selection strings, and the bundled observers."""
