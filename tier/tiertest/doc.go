// Package tiertest is what the tests of the tiers share: servers, scopes,
// waiting, and a connection that fails on command. Only tests import it.
//
// A suite that says what a tier means runs on every server that must behave the
// same, with [EachServer]; these are shared by all tests of a binary, and tests
// keep out of each other's way by a [Scope] of their own, so they run in
// parallel and nobody flushes. A test that kills, freezes, fills or flushes its
// server takes a [Private] one. A test that loses a reply, or a connection, puts
// a [Proxy] in front of either. A server that is not installed is a failure,
// never a skip.
//
// Every package that uses it says so in its TestMain:
//
//	func TestMain(m *testing.M) { tiertest.Main(m) }
package tiertest
