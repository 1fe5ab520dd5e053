// Package embedded runs a valkey-server (or redis-server) as a child of this
// program: for people who want to try the pipeline without installing a
// service, and for tests that need a server they may kill.
//
// [Start] gives a [Server] of one's own: it lives as long as the program, and
// is killed with it, whatever ends the program (on Linux; elsewhere a program
// that is killed leaves its server behind). [Share] gives a [Lease] of a server
// that all commands of a user share: whoever comes first starts it, whoever
// leaves last shuts it down, its data stay in a directory.
//
// Both serve a unix socket that only this user can reach. TCP is opened on
// request, and on loopback only, because the server has no password. Server
// and configuration are the real ones: nothing here imitates a server.
//
// Durability is the server's: with an append-only file and its default of one
// fsync a second, a crash of the machine can lose the last second; a crash of
// the server or of this program loses nothing that was acknowledged.
package embedded
