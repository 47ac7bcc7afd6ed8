"""Acceptance offline: drafters on the same anchors of recorded text, teacher-forced, without a server.

Data flows down this list; a file imports only from files above it.

    arm         what is compared: a drafter, a width, a window, a bridge, a precision
    sequence    recorded text as token ids, and which of them the target wrote
    anchor      where blocks are drafted, by context length
    capture     what the target leaves behind: tapped layers and its best tokens
    store       captures on disk, so that a run can be resumed and repeated
    context     the projected context behind each anchor, cut to what a window shows
    dspine      proposals of a DSpine drafter, by the reference
    flash       configs of DFlash, DFlash2 and DSpark drafters
    block       their backbone: rows that see one another
    rival       their proposals
    count       accepted lengths as histograms by sequence and context length
    run         capture, draft, count; resumable
    report      CSV, JSON, Markdown, plots
"""
