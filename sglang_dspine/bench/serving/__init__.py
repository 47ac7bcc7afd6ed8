"""End to end: several ways to serve one target, under the same load, in turns on one machine.

Data flows down this list; a file imports only from files above it.

    arm         one way to serve: an algorithm, a drafter, settings; or the address of a running server
    synthetic   a built-in agent workload with shared prefixes
    workload    conversations as token ids, the same for every arm
    answer      one request's tokens and times
    load        so many users at once, each playing one conversation after the other
    watch       free memory, clocks and temperature while a load runs
    cell        what one (arm, users, repetition) came to
    servers     the arms' servers, started and stopped
    run         visits in the order A B B A, everything written as it is measured
    verdict     which differences may be quoted
    report      CSV, Markdown, plots
    results     a run folder, or what `sglang.bench_serving` wrote, read back
"""
