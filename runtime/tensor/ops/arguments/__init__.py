"""What operations take: types and how they are promoted, scalars, ``out=``, operands that overlap."""
