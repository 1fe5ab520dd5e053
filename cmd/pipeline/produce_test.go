package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/tier/tiertest"
)

// message is a JSON line of the program.
type message struct {
	ID, Entry, Time, Type, Key string
	Headers                    map[string]string
	Data                       json.RawMessage
	Encoding                   string
	Fields                     []string
	Error                      string
}

func messages(t testing.TB, r result) []message {
	t.Helper()
	all := make([]message, len(r.lines()))
	for i, line := range r.lines() {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&all[i]), line)
	}
	return all
}

// data lists the data of messages.
func data(t testing.TB, r result) []string {
	t.Helper()
	var all []string
	for _, m := range messages(t, r) {
		all = append(all, string(m.Data))
	}
	return all
}

func TestProduceFormats(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, file, text string
		args             []string
		want             []string // data
	}{
		{"CSV by its name", "x.csv", "a,b\n1,\"x\ny\"\n2,ü\n", nil, []string{`{"a":"1","b":"x\ny"}`, `{"a":"2","b":"ü"}`}},
		{"JSON by its name", "x.jsonl", "{\"b\": 1.0, \"a\": [ ]}\n\"x\"\n", nil, []string{`{"b":1.0,"a":[]}`, `"x"`}},
		{"lines by default", "x.log", "one\n\n {\"two\": 2}\r\n", nil, []string{`"one"`, `""`, `" {\"two\": 2}"`}},
		{"named format", "x.log", "a\n1\n", []string{"--format", "csv"}, []string{`{"a":"1"}`}},
		{"lines that are not UTF-8", "x", "\xff\n", nil, []string{`"/w=="`}},
		{"nothing", "x.csv", "", nil, nil},
		{"header line only", "x.csv", "a\n", nil, nil},
		{"packs", "x.csv", "a\n1\n2\n3\n", []string{"--pack", "2"}, []string{`{"a":"1"}`, `{"a":"2"}`, `{"a":"3"}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, addr := onShared(t), scope(t)+"/things"
			p.file(tc.file, tc.text)
			r := p.ok(append([]string{"produce", addr, tc.file}, tc.args...)...)
			require.Empty(t, r.out)
			require.Contains(t, r.errOut, fmt.Sprintf("pipeline: %s written to %s in ", show.Count(len(tc.want), "message"), addr))
			if tc.want == nil {
				require.Equal(t, 3, p.run("range", addr).code, "nothing was written, not even the stream")
				return
			}
			require.Equal(t, tc.want, data(t, p.ok("range", addr)))
		})
	}
}

func TestProduceFields(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/orders"
	p.file("x.csv", "who,at,n\nann,2016/01/01 00:30:04.91,1\nbob,2016-01-02,2\n")
	p.ok("produce", addr, "x.csv", "--key", "who", "--time", "at", "--type", "order.placed", "--brand", "ORD")
	got := messages(t, p.ok("range", addr))
	require.Len(t, got, 2)
	m := got[0]
	require.Regexp(t, `^ORD[0-9A-Za-z]{11}$`, m.ID)
	require.Regexp(t, `^\d{13}-\d+$`, m.Entry)
	when, err := time.Parse("2006-01-02T15:04:05.000Z", m.Time)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), when, time.Minute)
	require.Equal(t, "order.placed", m.Type)
	require.Equal(t, "ann", m.Key)
	require.Equal(t, map[string]string{"content-type": "application/json", "event-time": "2016-01-01T00:30:04.91Z"}, m.Headers)
	require.Equal(t, "2016-01-02T00:00:00Z", got[1].Headers["event-time"])

	r := p.given(`{"k": 7}`+"\n").run("produce", addr, "-", "--format", "json", "--key", "k")
	require.Zero(t, r.code, r.errOut)
	last := messages(t, p.ok("tail", addr, "-n", "1"))[0]
	require.Equal(t, "7", last.Key)
	require.Equal(t, "orders", last.Type, "the stream's name by default")
	require.Equal(t, m.ID[:3], last.ID[:3])

	r = p.given("x\n").run("produce", addr, "--brand", "XYZ")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "has brand ORD, not XYZ: leave the brand out")
}

func TestProduceBadLines(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	p.file("x.csv", "k,b\n1,x\n2\n3,\"y\n4,z\n"+strings.Repeat("k", 1025)+",5\n6,"+strings.Repeat("x", 1<<20)+"\n")
	bad := []string{
		"x.csv:3: 1 value, the header line has 2 columns",
		`x.csv:4: a " is not closed`,
		"x.csv:6: key is over its cap: 1025, at most 1024",
		"x.csv:7: longer than 1 MiB, which is what a message may have",
	}

	addr := scope(t) + "/rows"
	r := p.run("produce", addr, "x.csv", "--key", "k", "--output", "json")
	require.Equal(t, 1, r.code)
	for _, want := range bad {
		require.Contains(t, r.errOut, "\n"+want)
	}
	require.Contains(t, r.errOut, "2 messages written to "+addr)
	require.Contains(t, r.errOut, "pipeline: 4 lines left out: correct and produce what is missing")
	require.Regexp(t, `^\{"written":2,"refused":4,"unknown":0,"first":"ROW\w{11}","last":"ROW\w{11}","seconds":[0-9.e-]+\}\n$`, r.out)
	require.Equal(t, []string{`{"k":"1","b":"x"}`, `{"k":"4","b":"z"}`}, data(t, p.ok("range", addr)))

	addr = scope(t) + "/rows"
	r = p.run("produce", addr, "x.csv", "--strict", "--quiet")
	require.Equal(t, 1, r.code)
	require.Equal(t, "pipeline: "+bad[0]+"\n", r.errOut)
	require.Equal(t, []string{`{"k":"1","b":"x"}`}, data(t, p.ok("range", addr)), "what stood before it")

	r = p.run("produce", addr, "none.csv")
	require.Equal(t, 3, r.code)
	require.Equal(t, "pipeline: none.csv: no such file or directory\n", r.errOut)
	r = p.run("produce", addr, ".")
	require.Equal(t, 1, r.code)
	require.Equal(t, "pipeline: .: is a directory: give the files in it one by one\n", r.errOut)
	p.file("twice.csv", "a,a\n1,2\n")
	r = p.run("produce", addr, "twice.csv")
	require.Equal(t, 1, r.code)
	require.Equal(t, "pipeline: twice.csv:1: header line: column \"a\" stands there twice\n", r.errOut)
}

// big is a CSV file of n rows of real data.
func big(t testing.TB, n int) string {
	t.Helper()
	sample, err := os.ReadFile("internal/demo/testdata/earthquakes.csv")
	require.NoError(t, err)
	header, rows, ok := strings.Cut(string(sample), "\n")
	require.True(t, ok)
	lines := strings.SplitAfter(strings.TrimSuffix(rows, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	var b strings.Builder
	b.WriteString(header + "\n")
	for i := range n {
		b.WriteString(lines[i%len(lines)])
	}
	return b.String()
}

// The whole catalogue's number of rows, plain and in packs, comes back in order, and
// is counted, and goes through a group.
func TestProduceManyAndBack(t *testing.T) {
	t.Parallel()
	const n = 12_050
	p, s := onShared(t), scope(t)
	p.file("quakes.csv", big(t, n))
	var all [2][]string
	for i, args := range [][]string{{s + "/plain"}, {s + "/packed", "--pack", "100", "--compress"}} {
		r := p.ok(append([]string{"produce", args[0], "quakes.csv", "--key", "Source", "--time", "DateTime", "--type", "quake"}, args[1:]...)...)
		require.Contains(t, r.errOut, "12,050 messages written")
		require.Equal(t, "12050\n", p.ok("range", args[0], "--count").out)

		history := p.ok("range", args[0])
		consumed := p.ok("consume", args[0], "--group", "g", "--count", fmt.Sprint(n))
		require.Equal(t, n, len(history.lines()))
		require.True(t, history.out == consumed.out, "a group of one consumer gets the same in the same order")
		previous := ""
		for _, m := range messages(t, history) {
			require.Less(t, previous, m.ID)
			previous = m.ID
			all[i] = append(all[i], m.Key+m.Headers["event-time"]+string(m.Data))
		}
		require.Contains(t, p.ok("groups", args[0]).out, `"lag":0,"lag_exact":true,"pending":0,`)
	}
	require.True(t, strings.Join(all[0], "\n") == strings.Join(all[1], "\n"), "packs make no difference")
	require.Contains(t, p.ok("streams", s).out, `"entries":121,`, "full packs, but for the last")
	bytes := func(addr string) int {
		size := regexp.MustCompile(`"bytes":(\d+)`).FindStringSubmatch(p.ok("stream", "rm", addr, "--dry-run", "--output", "json").out)
		require.Len(t, size, 2)
		n, err := strconv.Atoi(size[1])
		require.NoError(t, err)
		return n
	}
	require.Less(t, bytes(s+"/packed"), bytes(s+"/plain")/3, "compressed")
}

func TestProduceStopsInOrder(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/ticks"
	p.file("x", strings.Repeat("tick\n", 1000))
	running := p.start("produce", addr, "x", "--rate", "20")
	tiertest.Eventually(t, limit/2, func() (bool, string) {
		r := p.run("range", addr, "--count")
		return r.code == 0 && r.out != "0\n", r.errOut
	})
	r := running.interrupted()
	require.Equal(t, 130, r.code, r.errOut)
	said := regexp.MustCompile(`(\d+) messages? written`).FindStringSubmatch(r.errOut)
	require.Len(t, said, 2, r.errOut)
	require.Equal(t, said[1]+"\n", p.ok("range", addr, "--count").out, "what it says is what there is")
	require.NotEqual(t, "1000", said[1])
}

func TestProduceRateAndTimeout(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/ticks"
	begun := time.Now()
	r := p.given(strings.Repeat("tick\n", 100)).run("produce", addr, "--rate", "50", "--timeout", "500ms")
	require.Equal(t, 1, r.code, r.errOut)
	require.Contains(t, r.errOut, "--timeout 500ms was over before the end")
	require.GreaterOrEqual(t, time.Since(begun), 500*time.Millisecond)
	got := len(p.ok("range", addr).lines())
	require.Positive(t, got)
	require.LessOrEqual(t, got, 50)

	r = p.given("tick\n").run("produce", addr, "--timeout", "1ns")
	require.Equal(t, 4, r.code, r.errOut)
	require.Contains(t, r.errOut, "nothing came within --timeout 1ns")
}

// What is typed line by line is sent line by line.
func TestProduceFromAPipe(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/lines"
	reads, writes, err := os.Pipe()
	require.NoError(t, err)
	defer writes.Close()
	running := p.startOn(reads, "produce", addr)
	_, err = writes.WriteString("one\n")
	require.NoError(t, err)
	tiertest.Eventually(t, limit/2, func() (bool, string) {
		r := p.run("range", addr, "--count")
		return r.out == "1\n", r.errOut
	})
	r := running.interrupted()
	require.Equal(t, 130, r.code, "also while it waits for input")
	require.Contains(t, r.errOut, "1 message written")
}

// A server that hangs is waited for, with a word about it, and nothing is written
// twice.
func TestProduceWaitsForItsServer(t *testing.T) {
	t.Parallel()
	s := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, s.URL())
	p.given("0\n").ok("produce", "shop/lines")
	reads, writes, err := os.Pipe()
	require.NoError(t, err)
	running := p.startOn(reads, "produce", "shop/lines")
	_, err = writes.WriteString("1\n")
	require.NoError(t, err)
	tiertest.Eventually(t, limit/2, func() (bool, string) {
		r := p.run("range", "shop/lines", "--count")
		return r.out == "2\n", r.errOut
	})
	require.NoError(t, s.Freeze())
	_, err = writes.WriteString("2\n")
	require.NoError(t, err)
	require.NoError(t, writes.Close())
	running.said("warning: the server does not answer: trying for half a minute in all")
	require.NoError(t, s.Thaw())
	require.Zero(t, running.wait().code)
	require.Equal(t, quoted(0, 2), data(t, p.ok("range", "shop/lines")))
}

func TestProduceNothing(t *testing.T) {
	t.Parallel()
	p, addr := onShared(t), scope(t)+"/lines"
	raw(t, shared, "SET", logKey(t, addr), "text")
	defer raw(t, shared, "DEL", logKey(t, addr))
	r := p.given("1\n").run("produce", addr)
	require.Equal(t, 1, r.code)
	require.NotContains(t, r.errOut, "written to", "the error says it all")

	for name, text := range map[string]string{"a semicolon": "a;b\n1;2\n", "a tab": "a\tb\n1\t2\n"} {
		r = p.given(text).ok("produce", scope(t)+"/columns", "--format", "csv")
		require.Contains(t, r.errOut, "warning: stdin: one column, with "+name+" in its name: values are separated by commas here")
	}

	addr = scope(t) + "/marked"
	p.given("\xef\xbb\xbfone\ntwo\n").ok("produce", addr)
	require.Equal(t, []string{`"one"`, `"two"`}, data(t, p.ok("range", addr)))
}

// An exclusive stream is written by one writer at a time, and read like any other.
func TestProduceExclusive(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	scope := tiertest.Scope(t)
	for _, line := range []string{"one\n", "two\nthree\n"} {
		p.given(line).ok("produce", scope+"/events", "--exclusive", "--brand", "EVT")
	}
	all := p.ok("range", scope+"/events")
	require.Equal(t, []string{`"one"`, `"two"`, `"three"`}, data(t, all))
	second := messages(t, all)[1].ID
	require.Equal(t, []string{`"two"`, `"three"`}, data(t, p.ok("range", scope+"/events", "--from", second)))
	require.Equal(t, []string{`"two"`}, data(t, p.ok("get", second, scope+"/events")))
	require.Contains(t, p.ok("streams", scope).out, `"exclusive":true`)

	r := p.given("x\n").run("produce", scope+"/events")
	require.NotZero(t, r.code)
	require.Contains(t, r.errOut, "is exclusive, its one writer mints its ids: give --exclusive, or write to another stream")
	p.given("x\n").ok("produce", scope+"/plain")
	require.Contains(t, p.given("x\n").run("produce", scope+"/plain", "--exclusive").errOut, "leave --exclusive out, or write to another stream")
	r = p.given("x\n").run("produce", scope+"/events", "--exclusive", "--pack", "2")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.errOut, "no packs")
}

// A value of --dedup is appended once in its window, within a file and by another run.
func TestProduceDedup(t *testing.T) {
	t.Parallel()
	p := onShared(t)
	addr := tiertest.Scope(t) + "/orders"
	p.file("a.csv", "id,n\n1,a\n2,b\n1,c\n")
	r := p.ok("produce", addr, "a.csv", "--dedup", "id")
	require.Contains(t, r.errOut, "2 messages written")
	require.Contains(t, r.errOut, "1 message left out")
	r = p.given(`{"id":2}`+"\n"+`{"id":"3"}`+"\n"+`{"id":""}`+"\n").run("produce", addr, "--format", "json", "--dedup", "id", "--dedup-window", "1h", "--output", "json")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, `"written":1,"refused":1,"unknown":0,"duplicates":1`)
	require.Contains(t, r.errOut, "stdin:3: field \"id\" is empty")
	require.Equal(t, []string{`{"id":"1","n":"a"}`, `{"id":"2","n":"b"}`, `{"id":"3"}`}, data(t, p.ok("range", addr)))

	for _, args := range [][]string{
		{"--format", "lines", "--dedup", "id"},
		{"--format", "json", "--dedup", "id", "--pack", "2"},
		{"--format", "json", "--dedup", "id", "--exclusive"},
		{"--format", "json", "--dedup", "id", "--dedup-window", "400d"},
		{"a.csv", "--dedup", "nope"},
	} {
		require.Equal(t, 2, p.run(append([]string{"produce", addr}, args...)...).code, args)
	}
}

// A keyed stream has versions of its keys, which range shows; whoever counts on another kind is told which flag is wrong.
func TestProduceKeyed(t *testing.T) {
	t.Parallel()
	p, addr := alone(t), scope(t)+"/accounts"
	r := p.given(`{"k":"ann","n":1}`+"\n"+`{"k":"bob","n":2}`+"\n"+`{"k":"ann","n":3}`+"\n"+`{"k":"","n":4}`+"\n").run("produce", addr, "--format", "json", "--key", "k", "--keyed")
	require.Equal(t, 1, r.code, r.errOut)
	require.Contains(t, r.errOut, `stdin:4: field "k" is empty, and each message of a keyed stream needs a key`)
	lines := strings.Split(strings.TrimSpace(p.ok("range", addr, "--key", "ann").out), "\n")
	require.Len(t, lines, 2)
	require.True(t, strings.HasPrefix(lines[0], `{"version":1,"id":"`), lines[0])
	require.True(t, strings.HasPrefix(lines[1], `{"version":2,"id":"`), lines[1])
	require.Contains(t, lines[1], `"data":{"k":"ann","n":3}`)
	require.Regexp(t, `^2 \d{4}-\S+ \S+  ACC\w+  accounts  ann `, p.ok("range", addr, "--key", "ann", "--from-version", "2", "--output", "text").out)
	require.Equal(t, "1\n", p.ok("range", addr, "--key", "bob", "--count").out)
	require.Empty(t, p.ok("range", addr, "--key", "cid").out)
	require.Contains(t, p.ok("streams", strings.TrimSuffix(addr, "/accounts")).out, `"keyed":true`)
	require.Contains(t, p.given("x\n").run("produce", addr).errOut, "is keyed, each append notes the versions of its keys: give --keyed, or write to another stream")
	plain := strings.TrimSuffix(addr, "accounts") + "plain"
	p.given("x\n").ok("produce", plain)
	require.Contains(t, p.given(`{"k":"ann"}`).run("produce", plain, "--format", "json", "--key", "k", "--keyed").errOut, "leave --keyed out, or write to another stream")
	require.Contains(t, p.run("range", plain, "--key", "ann").errOut, "not a keyed stream")
	for _, args := range [][]string{
		{"produce", addr, "--keyed"},
		{"produce", addr, "--keyed", "--format", "json", "--key", "k", "--pack", "2"},
		{"range", addr, "--key", "ann", "--from", "1h"},
		{"range", addr, "--from-version", "2"},
	} {
		require.Equal(t, 2, p.given("").run(args...).code, args)
	}
}
