// Command pipeline is the program of EchoMQ for Go: durable event streams with
// consumer groups, on nothing but Valkey.
//
//	pipeline demo                                   see the main job done on real input, in seconds
//	pipeline produce shop/orders orders.csv         append the rows of a file
//	pipeline tail shop/orders --follow              look at what comes
//	pipeline consume shop/orders --group mailer     handle it, as one of a group
//	pipeline range shop/orders --from 1h --count    read history again, by time or id
//	pipeline get ORD0STCa4O4Feq                     find one message by its id alone
//	pipeline streams; pipeline groups shop/orders; pipeline check shop; pipeline doctor
//	pipeline group reset shop/orders --group mailer --to head; pipeline stream rm shop/orders
//
// Without a server URL (--url, --url-file, PIPELINE_URL) the commands share an
// embedded server. docs/cli.md describes all of it; 'pipeline help' does too.
//
// One command has one file. What is pure stands in packages of its own: input reads
// files, when reads times, words splits command lines, show writes messages and
// tables, demo is the demo. The rest is flags and wiring; main only maps errors to
// exit codes.
package main
