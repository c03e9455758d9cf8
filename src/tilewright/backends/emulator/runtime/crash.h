// Turning signals into bugs.
#pragma once
#pragma GCC visibility push(hidden)
void catch_crashes(double seconds);  // and the run's end when it takes longer
void write_bug();                    // to the report
#pragma GCC visibility pop
