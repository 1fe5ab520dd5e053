// Package schedule says when something that repeats is due: at the times of a cron expression in a time zone ([Cron]), or
// on a fixed grid ([Every]). [CatchUp] says what becomes of what was due while nobody looked. It is pure: it reads no
// clock, does no I/O and starts nothing.
//
// # Guarantees
//
//   - Occurrences are strictly ascending, and depend on nothing but the schedule and the zone's rules: whoever asks, and
//     when, gets the same ones. A grid does not move with the time that polling or handling takes.
//   - Clocks that are put forward or back skip no occurrence and repeat none, by this rule. An expression that names its
//     hours fires for each time of day that it names once: when the zone's clock first reaches or passes it. So what is
//     skipped when the clock is put forward fires at that moment, several of them once; of a time that comes twice when it
//     is put back, the first counts. An expression that leaves its hours open (all 24 are in its set) fires whenever the
//     clock shows one of its times: in both passes of an hour that comes twice, not in one that does not come.
//   - What is wrong with an expression is told with its column ([SyntaxError]), a zone that is not known by its name
//     ([ZoneError]).
//
// # What it does not do
//
// It does not embed the time zone database: that is for programs to decide (import _ "time/tzdata", 450 KB), since a system's own is
// newer as a rule. It knows no seconds in cron expressions, no years, and no schedule that ends.
package schedule
