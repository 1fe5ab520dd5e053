// Package soak holds tests only: writers and a group of consumers at work, while servers and processes are killed, frozen,
// emptied and cut off at random, and a book that knows every message. `make soak` runs it for as long as one likes.
package soak
