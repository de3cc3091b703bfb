"""What a job tells whoever started it by its exit code.

=====  ==================================================================================
code   meaning
=====  ==================================================================================
0      done: all outputs are written
1      failed: a line says where, what was found, what was expected and what to do
75     nothing is wrong: asked to stop, or out of time; the state is saved, and the same
       command, Snakemake's ``retries`` or a cluster's requeue goes on from there
       (EX_TEMPFAIL of sysexits.h)
130    Ctrl-C in a job that has no state to save
=====  ==================================================================================

A process that is killed outright (SIGKILL, a power cut) has no say in its code.
"""

EXIT_CODE_FAILED = 1
EXIT_CODE_TRY_AGAIN = 75
EXIT_CODE_CTRL_C = 130
