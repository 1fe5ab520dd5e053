// Package capacity works out what a load takes of a server: memory, disk, network. It asks nobody; its arithmetic is that of the
// server's nodes and commands, and a test compares it with what a server says. docs/capacity.md tells how to use it.
package capacity
