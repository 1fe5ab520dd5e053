// Package benchmarks measures the product against what it is built on, on a real server. It has no code of its own but its
// tests, which measure with package bench; NOTES.md has what they said, and the commands.
package benchmarks
