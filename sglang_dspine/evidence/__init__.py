"""What a measurement may say: ratios with their intervals, spreads with their gate, tables and plots.

ratio    two arms on the same sequences: a ratio of means from counts, its interval over sequences
trials   two arms timed several times: a ratio of speeds, its interval over repetitions
spread   median [min-max], and which cells scatter too much to be quoted
table    rows as CSV and Markdown
plot     lines with their ranges; matplotlib is an extra
"""
