"""What a measurement reads and may say: conversations, ratios with intervals, spreads with a gate, tables and plots.

recorded    conversations from OpenAI-style JSONL
ratio       two arms on the same sequences: a ratio of means from counts, its interval over sequences
trials      two arms timed several times: a ratio of speeds, its interval over repetitions
spread      median [min-max], and which cells scatter too much to be quoted
table       rows as CSV and Markdown
plot        lines with their ranges; matplotlib is an extra
"""
