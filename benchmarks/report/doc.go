// Package report makes REPORT.md, its charts and the short table of the README from what the benchmarks have written into results: nothing of it is
// written by hand but the explanations in its templates, which have no figures. The program run beside it measures first.
package report
