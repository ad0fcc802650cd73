"""Pictures of results, for pages (SVG, light and dark) and for documents (PNG).

    palette    the colours, each with a light and a dark shade; one for each allocator
    picture    Picture: what all charts return; how it becomes SVG or PNG
    spread     one program: a dot, an interval and every sample for each allocator
    suite      many benchmarks: each allocator over HAKMEM, on a logarithmic axis
    timeline   figures over time

A chart is a function that returns a Picture; page.py puts pictures into a page.
"""
