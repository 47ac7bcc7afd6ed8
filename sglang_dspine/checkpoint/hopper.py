"""What Hopper's approximate reciprocal does to a row's scale.

`rcp.approx.ftz.f32` is within one unit in the last place of the correctly rounded 1 / scale. A row's largest magnitude
is a BF16 number, so its scale is one of 128 mantissas: the deviation, in units in the last place, for each of them.
tests/gpu/fp8_rows.py measures the table. It has not run yet: zeros stand for a reciprocal that is always correctly
rounded.
"""

RECIPROCAL_ULPS = (0,) * 128  # by the BF16 mantissa of the row's largest magnitude
