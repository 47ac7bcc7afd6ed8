"""What Hopper's approximate reciprocal does to a row's scale.

`rcp.approx.ftz.f32` is within one unit in the last place of the correctly rounded 1 / scale. A row's largest magnitude
is a BF16 number, so its scale is one of 128 mantissas: the deviation, in units in the last place, for each of them, the
same at every exponent. Measured on an H200 by `python -m tests.gpu.fp8_rows OUT`; the rows it made are pinned in
`tests/data/fp8/h200.safetensors`.
"""

RECIPROCAL_ULPS = (  # by the BF16 mantissa of the row's largest magnitude
    1, 0, 0, 0, 0, 0, 0, 0, -1, 0, 1, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, -1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, -1, 0, -1, 0, -1, 0, 0, 0, 0, 0, -1, 0, 0,
    0, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0,
)  # fmt: skip
