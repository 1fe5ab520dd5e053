// Package bench measures what the product does against what the server alone can do: each work by turns with a ceiling, a
// loop of raw bytes over one connection that makes the same server do the same commands, in the same minute. A rate says
// something of a machine and an hour; the ratio of the two says something of the product.
//
// Run measures one work of Works in rounds, and reports medians. It writes into one scope, which it makes and removes.
//
// It does not compare with other products: benchmarks/peers does. docs/benchmarks.md says how to read the figures.
package bench
