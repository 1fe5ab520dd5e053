package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bad input is refused before anything is sent: nobody listens at the URL, which
// would be exit code 1.
func TestBadInput(t *testing.T) {
	p := onServer(t, "unix:///nowhere/server.sock")
	p.file("x.csv", "a,b\n1,2\n")
	p.file("x.json", `{"customer":"ann"}`)
	p.file("empty", "")
	for _, tc := range []struct {
		name string
		args string
		want string
	}{
		{"command", "prodcue", `unknown command "prodcue"; did you mean produce? (pipeline help lists them)`},
		{"flag", "produce a/b --nope", "unknown flag: --nope (pipeline produce --help)"},
		{"flag without a value", "tail a/b -n", "flag needs an argument: 'n' in -n (pipeline tail --help)"},
		{"output", "streams --output xml", `--output "xml": want one of text, json`},
		{"timeout", "streams --timeout soon", `--timeout "soon": want a length of time above zero, as in 500ms, 90s, 15m, 2h30m, 7d, 2w`},
		{"timeout of zero", "streams --timeout 0s", `--timeout "0s": want a length of time`},
		{"URL", "streams --url http://x", "--url: bad server URL: it starts with one of valkey://"},
		{"URL with a parameter", "streams --url valkey://x?nope=1", "bad server URL: the parameters are db, sentinel,"},
		{"URL of a file", "streams --url-file x.csv", "--url-file x.csv: bad server URL: "},
		{"help", "help nonsense", `unknown command "nonsense" (pipeline help lists them)`},
		{"help, nearly", "help prodcue", `unknown command "prodcue"; did you mean produce? (pipeline help lists them)`},
		{"server with a URL", "server --url unix:///x", "--url has no meaning here: server runs a server of its own"},
		{"demo with a URL file", "demo --url-file x", "--url-file has no meaning here: demo runs a server of its own"},
		{"URL that is none", "streams --url=", `--url "": want a URL, as in valkey://host:6379; without --url there is an embedded server`},
		{"URL file without a name", "streams --url-file=", `--url-file "": want the name of a file`},
		{"two URLs", "streams --url unix:///x --url-file empty", "--url and --url-file: give one of them"},
		{"URL file", "streams --url-file none", "--url-file none: no such file or directory"},
		{"empty URL file", "streams --url-file empty", "--url-file empty: the file is empty, want a URL"},

		{"no address", "produce", "want the address of a stream, as in shop/orders, and perhaps a file (pipeline produce --help)"},
		{"no scope", "tail orders", `address "orders": an address is "scope/stream"`},
		{"scope", "tail sh*p/orders", `scope "sh*p": '*' is not one of A-Z a-z 0-9 . _ -`},
		{"stream", "range shop/ord/ers", `stream "ord/ers": '/' is not one of`},
		{"reserved scope", "groups emq/x", `scope "emq": this name is reserved`},
		{"long name", "streams " + strings.Repeat("x", 129), "a name has 1 to 128 bytes, this has 129"},
		{"too many", "check a b", `"b" is one argument too many: want the name of a scope (pipeline check --help)`},
		{"group", "consume a/b --group g/h", `--group "g/h": '/' is not one of`},
		{"no group", "consume a/b", "want the name of a group: pipeline consume a/b --group NAME"},

		{"format", "produce a/b x.csv --format xml", `--format "xml": want one of lines, json, csv`},
		{"brand", "produce a/b x.csv --brand Abc", `--brand "Abc": want three capital letters, A to Z`},
		{"pack", "produce a/b x.csv --pack 0", `--pack "0": want a whole number from 1 to 4096`},
		{"pack too large", "produce a/b x.csv --pack 4097", `--pack "4097": want a whole number from 1 to 4096`},
		{"compressed without packs", "produce a/b x.csv --compress", "--compress compresses packs: give --pack too, 100 for instance"},
		{"imported compressed without packs", "import x.jsonl a/b --compress", "--compress compresses packs: give --pack too, 100 for instance"},
		{"rate", "produce a/b x.csv --rate -1", `--rate "-1": want a number of messages per second, above 0`},
		{"rate that is none", "produce a/b x.csv --rate NaN", `--rate "NaN": want a number of messages per second, above 0`},
		{"type", "produce a/b x.csv --type " + strings.Repeat("t", 256), `want 1 to 255 bytes`},
		{"key of lines", "produce a/b --key k", "--key, --time and --dedup name fields, and lines have none: give --format json or csv"},
		{"key", "produce a/b x.csv --key c", `--key "c": no such column, the header line has ["a" "b"]`},
		{"time field", "produce a/b x.csv --time c", `--time "c": no such column, the header line has ["a" "b"]`},
		{"metrics", "produce a/b x.csv --metrics 9100", `--metrics "9100": want HOST:PORT, or :PORT for loopback`},
		{"metrics port", "produce a/b x.csv --metrics :http1", `--metrics ":http1": want a port from 0 to 65535`},
		{"metrics at once over", "tail a/b --metrics :0", "--metrics 127.0.0.1:0: it needs --follow"},

		{"lines", "tail a/b -n -1", `-n "-1": want a whole number, 0 or more`},
		{"from", "range a/b --from yesterday", `--from "yesterday": want an id (`},
		{"to", "range a/b --to 2026-13-01", `--to "2026-13-01": want an id (`},
		{"id out of range", "range a/b --from EVTzzzzzzzzzzz", `--from "EVTzzzzzzzzzzz": want an id (`},
		{"from behind to", "range a/b --from 2026-11-29 --to 2026-11-28", `--from "2026-11-29" is behind --to "2026-11-28"`},
		{"limit", "range a/b --limit 0", `--limit "0": want a whole number, 1 or more`},
		{"id", "get 123", `"123" is no id: want 14 characters`},
		{"id in lower case", "get evt000xY9Wvvcd", `"evt000xY9Wvvcd" is no id: want 14 characters`},
		{"entry without address", "get 1-0", `"1-0" is an entry: want the address of its stream behind it, as in 'pipeline get 1-0 shop/orders'`},
		{"start", "consume a/b --group g --start old", `--start "old": want new, head, or a place: want an id (`},
		{"count", "consume a/b --group g --count 0", `--count "0": want a whole number, 1 or more`},
		{"wait", "consume a/b --group g --wait -1s", `--wait "-1s": want a length of time above zero`},
		{"concurrency", "consume a/b --group g --concurrency 0", `--concurrency "0": want a whole number from 1 to 1024`},
		{"program", "consume a/b --group g --exec nonesuch", `--exec "nonesuch": "nonesuch" is no program: executable file not found in $PATH`},
		{"quote", "consume a/b --group g --exec 'x", `a quote is not closed`},
		{"listen", "server --listen 0.0.0.0:6379", `--listen "0.0.0.0:6379": want an address on loopback`},
		{"nothing of a stream", "stream drop a/b", `unknown command "drop" of pipeline stream (pipeline stream --help lists them)`},
		{"nobody to ask", "stream rm a/b", "there is no terminal to ask on: give --yes, or --dry-run to see what would be changed"},
		{"nobody to ask about entries", "stream reset a/b", "there is no terminal to ask on: give --yes"},
		{"nobody to ask about a group", "group delete a/b --group g", "there is no terminal to ask on: give --yes"},
		{"nobody to ask about a place", "group reset a/b --group g --to new", "there is no terminal to ask on: give --yes"},
		{"no group to delete", "group delete a/b --yes", "want the name of a group: --group NAME ('pipeline groups a/b' lists them)"},
		{"no place", "group reset a/b --group g --yes", "want the place to go to: --to head, new, an id, an entry, or a time"},
		{"place", "group reset a/b --group g --to old", `--to "old": want new, head, or a place: want an id (`},
		{"no number of partitions", "scope partition shop --yes", "want how many partitions: --count N"},
		{"number of partitions", "scope partition shop --count 257", `--count "257": want a whole number from 1 to 256`},
		{"partition", "tail a/b@x", `address "a/b@x": behind @ stands the number of a partition, 0 to 255`},
		{"nothing of the dead", "dead letters", `unknown command "letters" of pipeline dead (pipeline dead --help lists them)`},
		{"no group of the dead", "dead ls a/b", "want the name of a group: --group NAME ('pipeline groups a/b' lists them)"},
		{"which to redrive", "dead redrive a/b --group g --yes", "want which dead letters: --id ID, --match TEXT or --all ('pipeline dead ls a/b --group g' lists them)"},
		{"all and some", "dead drop a/b --group g --all --match x --yes", "--all is all of them: leave it out, or --id and --match"},
		{"nobody to ask about letters", "dead drop a/b --group g --all", "there is no terminal to ask on: give --yes"},
		{"id of a letter", "dead redrive a/b --group g --id x --yes", `--id "x": want the id of a letter (1795957200000-0), or of a message (ORD0STCa4O4Feq)`},
		{"no id to show", "dead show a/b --group g", "want the id of a dead letter: --id ID ('pipeline dead ls a/b --group g' lists them)"},
		{"nothing of queues", "queues drop", `unknown command "drop" of pipeline queues (pipeline queues --help lists them)`},
		{"nobody to ask about a queue", "queues obliterate q", "there is no terminal to ask on: give --yes"},
		{"job without a type", "jobs enqueue q", "want the type of the jobs: --type TYPE"},
		{"delay and time", "jobs enqueue q --type t --delay 1s --at 2026-11-29", "--delay and --at: give one of them"},
		{"data and a file", "jobs enqueue q x.csv --type t --data 1", "--data is what one job carries: leave it out, or x.csv"},
		{"unique key of many", "jobs enqueue q x.csv --type t --unique k", "--unique is for one job: give it --data"},
		{"state", "jobs ls q --state done", `--state "done": want one of ready, active, scheduled, retry, waiting, dead`},
		{"id of a job", "jobs show q --id ORD0STCa4O4Feq", `--id "ORD0STCa4O4Feq": want the id of a job`},
		{"no job to show", "jobs show q", "want the id of a job: --id ID ('pipeline jobs ls q' lists them)"},
		{"which jobs", "jobs cancel q --yes", "want which jobs: --id ID, --lane NAME, --match TEXT or --all"},
		{"all jobs and some", "jobs rm q --all --lane a --yes", "--all, --id and what chooses among jobs: give one of them"},
		{"nobody to ask about jobs", "jobs retry q --all", "there is no terminal to ask on: give --yes"},
		{"no unique key", "jobs enqueue q --type t --data 1 --on-conflict keep", "--unique-until and --on-conflict are of a unique key: give --unique KEY"},
		{"unique for no time", "jobs enqueue q --type t --unique-until 500us", `--unique-until "500us": want done, started, or how long: 1ms at least`},
		{"how long unique", "jobs enqueue q --type t --unique-until x", `--unique-until "x": want done, started, or how long`},
		{"conflict", "jobs enqueue q --type t --on-conflict x", `--on-conflict "x": want keep, refuse or replace`},
		{"deadline", "jobs enqueue q --type t --deadline x", `--deadline "x": want a time, or in how long`},
		{"tag", "jobs enqueue q --type t --tag=", `--tag "": want 1 to 128 bytes`},
		{"nothing to set of a queue", "queues set q", "want what to set: --ceiling, --rate or --events"},
		{"queue to work on", "work", "want the name of a queue (pipeline work --help)"},
		{"no program", "work q --exec nonesuch", `--exec "nonesuch": "nonesuch" is no program`},
		{"no lane", "lanes pause q", "want a lane: --lane NAME ('pipeline lanes q' lists them)"},
		{"nothing to set", "lanes set q --lane a", "want what to set: --weight, --ceiling or --rate"},
		{"rate", "lanes set q --lane a --rate 3", `--rate "3": want jobs in a time, in whole milliseconds, as in 100/1m, or none`},
		{"a rate in less than milliseconds", "queues set q --rate 3/1500us", `--rate "3/1500us": want jobs in a time, in whole milliseconds, as in 100/1m, or none`},
		{"ceiling", "lanes set q --lane a --ceiling 0", `--ceiling "0": want a whole number from 1 to`},
		{"weight", "lanes set q --lane a --weight 0", `--weight "0": want a number from 0.001 to 1000`},
		{"lane to move to", "lanes move q --all --yes", "want the lane that they are moved to: --to NAME"},
		{"nobody to ask about a lane", "lanes drain q --lane a", "there is no terminal to ask on: give --yes"},
		{"no queue", "cron ls", "want the name of a queue (pipeline cron ls --help)"},
		{"queue", "cron ls a/b", `queue "a/b": '/' is not one of`},
		{"reserved queue", "cron ls emq", `queue "emq": this name is reserved`},
		{"schedule without a name", "cron add q --type t --every 1s", "want a name for the schedule: --name NAME"},
		{"schedule without a type", "cron add q --name n --every 1s", "want the type of the jobs: --type TYPE"},
		{"schedule without times", "cron add q --name n --type t", "want when: --cron EXPR or --every DUR"},
		{"schedule with both times", "cron add q --name n --type t --cron @daily --every 1s", "want when: --cron EXPR or --every DUR"},
		{"zone of an interval", "cron add q --name n --type t --every 1s --zone UTC", "--zone is that of --cron"},
		{"anchor of an expression", "cron add q --name n --type t --cron @daily --anchor 2026-11-29", "--anchor is that of --every"},
		{"anchor", "cron add q --name n --type t --every 1s --anchor soon", `--anchor "soon": want a time as in 2026-11-29T13:00:00Z`},
		{"cron expression", "cron add q --name n --type t --cron @dayly", `cron expression "@dayly", column 1: `},
		{"zone", "cron add q --name n --type t --cron @daily --zone Mars/Base", `unknown time zone "Mars/Base"`},
		{"fine interval", "cron add q --name n --type t --every 1us", "not an interval"},
		{"catch-up", "cron add q --name n --type t --every 1s --catch-up never", `--catch-up "never": want one of once, skip, all`},
		{"data", "cron add q --name n --type t --every 1s --data {", `--data "{": want a JSON value`},
		{"no schedule to remove", "cron rm q --yes", "want the name of a schedule: --name NAME ('pipeline cron ls q' lists them)"},
		{"nobody to ask about a schedule", "cron rm q --name n", "there is no terminal to ask on: give --yes"},
		{"nothing of retention", "retention stop", `unknown command "stop" of pipeline retention (pipeline retention --help lists them)`},
		{"no policy", "retention set a/b", "want what may go: --max-length, --max-age, --max-bytes, --settled, --hard-cap, --retire-after or --archive ('pipeline retention rm' ends a policy)"},
		{"a policy of nothing", "retention set a/b --exact", "exact says how, and nothing says what"},
		{"a cap below the length", "retention set a/b --max-length 2 --hard-cap 1", "the hard cap is below the max length"},
		{"an archive with credentials", "retention set a/b --archive s3://me:word@bucket/a", "holds credentials: give them to the process that archives"},
		{"segments without an archive", "retention set a/b --segment-age 1h", "it says how to archive, and not where"},
		{"an unknown store", "archive ls a/b --store ftp://host", "want file:///path or s3://bucket/prefix"},
		{"retired at once", "retention set a/b --retire-after 10ms", "groups are retired after a second at least"},
		{"size", "retention set a/b --max-bytes 1.5GiB", `--max-bytes "1.5GiB": want a number of bytes, above 0, as in 1048576, 512MiB or 2GiB`},
		{"size too large", "retention set a/b --max-bytes 9000000000GiB", "want a number of bytes"},
		{"fine age", "retention set a/b --max-age 1us", `--max-age "1us": want whole milliseconds`},
		{"length of a policy", "retention set a/b --max-length 0", `--max-length "0": want a whole number, 1 or more`},
		{"scope of a policy", "retention ls a:b", `scope "a:b"`},
		{"stream of a policy", "retention set shop --settled", "address"},
		{"metrics of one sweep", "retention run a --metrics :0", "--metrics 127.0.0.1:0: it needs --follow"},
		{"replay from behind to", "replay a/b --from 2026-11-29 --to 2026-11-28", `--from "2026-11-29" is behind --to "2026-11-28"`},
		{"speed of zero", "replay a/b --speed 0x", `--speed "0x": want a factor above 0, as in 1x, 10x or 0.5x, or max`},
		{"speed", "replay a/b --speed 10", `--speed "10": want a factor above 0`},
		{"two ways to go", "replay a/b --exec cat --out x.jsonl", "--exec, --out and --to-stream: messages go to one of them"},
		{"kind of a file", "replay a/b --out x.txt", "--out x.txt: want a name that ends in .jsonl"},
		{"into itself", "replay a/b --to-stream a/b", "--to-stream a/b is the stream that is replayed"},
		{"producer of nothing", "replay a/b --producer p", "--producer names who appends to the stream of --to-stream"},
		{"hydrate nothing", "hydrate a/b", "want the name of the hash: pipeline hydrate a/b --into NAME"},
		{"import without a stream", "import x.csv", "want a file, and the address of a stream, as in orders.jsonl shop/orders"},
		{"import without ids", "import x.csv a/b", "x.csv:1: no ids: a message has an id and data, as 'pipeline replay --out' writes it"},
		{"import of other JSON", "import x.json a/b", "x.json:1: no ids: a message has an id and data"},
		{"import of an unknown kind", "import empty a/b", "empty: its name does not say what it holds: give --format"},
		{"scope of a doctor", "doctor shop a/b", "doctor takes scopes: a"},
		{"demo", "demo now", `"now" is one argument too many`},
		{"nothing to measure", "bench", "want what to measure: stream"},
		{"work", "bench disk", `"disk" cannot be measured: want stream`},
		{"two works", "bench stream pack", `"pack" is one argument too many: want what to measure`},
		{"small messages", "bench stream --size 7", `--size "7": want a whole number from 8 to 1048576`},
		{"no message", "bench stream --count 0", `--count "0": want a whole number from 1 to 10000000`},
		{"no round", "bench stream --rounds 0", `--rounds "0": want a whole number from 1 to 100`},
		{"nobody at work", "bench stream --concurrency 0", `--concurrency "0": want a whole number from 1 to 1024`},
		{"much memory", "bench stream --size 1048576 --count 2000", "2000 messages of 1048576 bytes are more than 1 GiB"},
		{"a chart of another kind", "bench stream --chart x.png", "--chart x.png: want a name that ends in .svg"},
		{"a chart nowhere", "bench stream --chart no/x.svg", "--chart no/x.svg: no such file or directory"},
		{"a chart without a name", "bench stream --chart=", `--chart "": want the name of a file`},
		{"persistence", "bench stream --persistence yes", `--persistence "yes": want one of no, everysec, always`},
		{"compressed by itself", "capacity --compressed 30", "Compressed: want 0: only packs are compressed"},
		{"large", "capacity --size 8388609", `--size "8388609": want a whole number from 0 to 8388608`},
		{"no axis", "bench growth --axis disk", `--axis "disk": want length, pending, groups, lanes, consumers or nodes`},
		{"durability of growth", "bench durability --axis length", "--axis is of bench growth"},
		{"durability at work", "bench durability --concurrency 2", "--concurrency is of the other works"},
		{"durability with a file", "bench durability --persistence always", "--persistence is of the other works"},
		{"growth of others", "bench stream --most 2000", "--most is of bench growth"},
		{"little growth", "bench growth --most 999", `--most "999": want a whole number from 1000 to 10000000`},
		{"growth at work", "bench growth --concurrency 2", "--concurrency is of the other works"},
		{"text and JSON", "bench stream --json --output text", "--json and --output text: give one of them"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := p.run(strings.Split(tc.args, " ")...)
			require.Equal(t, 2, r.code, r.errOut)
			require.Contains(t, r.errOut, "pipeline: ")
			require.Contains(t, r.errOut, tc.want)
			require.Equal(t, 1, strings.Count(r.errOut, "\n"), "one line: %s", r.errOut)
			require.Empty(t, r.out)
		})
	}
}

func TestHelp(t *testing.T) {
	p := alone(t)
	commands := []string{"demo", "server", "produce", "consume", "tail", "range", "get", "streams", "groups", "stream", "group", "scope", "dead", "work", "jobs", "queues", "lanes", "cron", "retention", "topology", "check", "doctor", "bench", "capacity", "version", "completion"}
	for _, args := range [][]string{{}, {"help"}, {"--help"}} {
		r := p.ok(args...)
		for _, c := range commands {
			require.Contains(t, r.out, "\n  "+c)
		}
		require.NotContains(t, r.out, "demo-worker")
	}
	require.Equal(t, p.ok("tail", "--help").out, p.ok("help", "tail").out)
	for _, empty := range []string{"", " "} {
		r := onServer(t, empty).run("streams")
		require.Equal(t, 2, r.code)
		require.Contains(t, r.errOut, "pipeline: PIPELINE_URL is set and empty: want a URL, as in valkey://host:6379; unset it for the embedded server")
	}
	bad := onServer(t, "http://x").run("streams")
	require.Equal(t, 2, bad.code)
	require.Contains(t, bad.errOut, "pipeline: PIPELINE_URL: bad server URL: ")
	for _, c := range commands {
		r := p.ok(c, "--help")
		require.Contains(t, r.out, "Usage:")
		for _, line := range r.lines() {
			require.LessOrEqual(t, len([]rune(line)), 82, line)
		}
	}
}

func TestCompletion(t *testing.T) {
	p := alone(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, p.ok("completion", shell).out, "pipeline")
	}
	require.Contains(t, p.ok("__complete", "prod").out, "produce\t")
	require.Contains(t, p.ok("__complete", "produce", "a/b", "--format", "").out, "lines\njson\ncsv\n")
	require.Contains(t, p.ok("__complete", "consume", "a/b", "--start", "").out, "new\nhead\n:4\n")
	require.Equal(t, ":4\n", p.ok("__complete", "produce", "").out, "no file for an address")
	require.Equal(t, ":0\n", p.ok("__complete", "produce", "a/b", "").out, "a file")
	require.Equal(t, ":0\n", p.ok("__complete", "streams", "--url-file", "").out)
	require.Equal(t, ":16\n", p.ok("__complete", "server", "--dir", "").out, "a directory")
}

func TestVersion(t *testing.T) {
	p := alone(t)
	require.JSONEq(t, p.ok("version", "--output", "json").out, p.ok("version").out)
	require.Contains(t, p.ok("version").out, `"version":"v0.0.0-test"`)
	require.Regexp(t, `^pipeline v0\.0\.0-test, wire echomq:3\.0\.0, go1\.\S+ \S+/\S+\n$`, p.ok("version", "--output", "text").out)
}
