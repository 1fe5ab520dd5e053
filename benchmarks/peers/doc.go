// Package peers measures the product against other job queues, another backend of Watermill and other streams, in one run. It is a module of its own, so that nobody who uses
// the product has its peers among their dependencies. It has no code but its tests; REPORT.md above it has what they said.
package peers
