"""The exactness suite: is the text of a DSPINE server still exactly the target's?

Levels, strongest first (a claim names its level):

    E1  identical        tokens of DSPINE = plain SGLang = transformers, fixed order arithmetic
    E2  teacher-forced   `teacher_forced.py`: the target rows verify used against an uncached re-score
    E3  audit            `audit.py`: emitted tokens of a running endpoint are the re-score's top-1
    E4  distribution     `distribution.py`: sampled tokens follow the target's conditional law

A test that cannot fail proves nothing, so two modules belong to the suite itself: `power.py` says how often
E4 catches a planted wrong q, and `faults.py` lists the faults each level must catch.
"""
