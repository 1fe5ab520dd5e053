package node_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

// text is a string of bytes, as the programs print it: a JSON string, or base64 when it is not UTF-8.
type text string

func (s *text) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, (*string)(s))
	}
	var v struct{ Base64 []byte }
	err := json.Unmarshal(b, &v)
	*s = text(v.Base64)
	return err
}

func (s text) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(s))})
}

// line is what read.mjs prints for a record, and what write.mjs takes.
type line struct {
	ID       *string   `json:"id"`
	Position string    `json:"position"`
	Type     text      `json:"type"`
	Key      text      `json:"key"`
	Headers  [][2]text `json:"headers"`
	Data     text      `json:"data"`
	Format   string    `json:"format"`

	Fields [][2]text       `json:"fields,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"` // its text is that of the reader
	Value  json.RawMessage `json:"value,omitempty"`
}

var broken = json.RawMessage("broken")

// lineOf is a record as read.mjs has to print it, without the decoded value.
func lineOf(r codec.Record) line {
	l := line{Position: r.Position.String()}
	if !r.Foreign() {
		id := r.ID.String()
		l.ID = &id
	}
	if r.Foreign() || r.Err != nil {
		for i := 0; i < len(r.Fields); i += 2 {
			l.Fields = append(l.Fields, [2]text{text(r.Fields[i]), text(r.Fields[i+1])})
		}
		if r.Err != nil {
			l.Error = broken
		}
		return l
	}
	l.Type, l.Key, l.Data, l.Format = text(r.Type), text(r.Key), text(r.Data), "bytes"
	if r.Format == codec.FormatMsgpack {
		l.Format = "msgpack"
	}
	l.Headers = [][2]text{}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, [2]text{text(h.Key), text(h.Value)})
	}
	return l
}

func linesOf(records []codec.Record) []line {
	var lines []line
	for _, r := range records {
		lines = append(lines, lineOf(r))
	}
	return lines
}

// parse reads lines that read.mjs has printed.
func parse(t *testing.T, out string) []line {
	t.Helper()
	var lines []line
	for row := range strings.Lines(out) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(row), &l), row)
		l.Value = nil
		if l.Error != nil {
			l.Error = broken
		}
		lines = append(lines, l)
	}
	return lines
}

func nodePath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	require.NoError(t, err, "these tests run programs on Node 18 or later: run scripts/setup test, or install it")
	return path
}

// program is one of the programs, that runs on a server.
func program(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, nodePath(t), args...)
	cmd.Env = append(os.Environ(), "PIPELINE_URL="+url)
	return cmd
}

// run gives a program its input and returns its output; stderr is empty when it succeeds.
func run(t *testing.T, url, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := program(t, url, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out.String(), errs.String(), err
}

func runOK(t *testing.T, url, input string, args ...string) string {
	t.Helper()
	out, errs, err := run(t, url, input, args...)
	require.NoError(t, err, errs)
	require.Empty(t, errs)
	return out
}

// site is a declared stream on a server.
type site struct {
	server   *tiertest.Server
	client   *tier.Client
	raw      rueidis.Client
	address  string
	key      string
	identity codec.Identity
}

func newSite(t *testing.T, s *tiertest.Server) *site {
	t.Helper()
	scope := tiertest.AuditedScope(t, s)
	raw, err := tiertest.Raw(s)
	require.NoError(t, err)
	t.Cleanup(raw.Close)
	e := &site{
		server: s, client: tiertest.Dial(t, s), raw: raw,
		address: scope + "/orders", key: tier.Address{Scope: scope, Stream: "orders"}.LogKey(),
	}
	e.identity, err = e.writer(t, 1).Declare(t.Context())
	require.NoError(t, err)
	return e
}

func (e *site) writer(t *testing.T, pack int) *stream.Writer {
	t.Helper()
	w, err := stream.NewWriter(e.client, stream.WriterConfig{Address: e.address, Pack: pack})
	require.NoError(t, err)
	return w
}

// xadd adds an entry as a program does that knows nothing of us.
func (e *site) xadd(t *testing.T, id string, fields ...string) {
	t.Helper()
	require.NoError(t, e.raw.Do(t.Context(), e.raw.B().Arbitrary("XADD").Keys(e.key).Args(id).Args(fields...).Build()).Error())
}

// records is all that our reader yields.
func (e *site) records(t *testing.T) []codec.Record {
	t.Helper()
	r, err := stream.NewReader(e.client, stream.ReaderConfig{Address: e.address})
	require.NoError(t, err)
	var all []codec.Record
	for record, err := range r.Range(context.WithoutCancel(t.Context()), codec.EntryID{}, codec.MaxEntryID) {
		require.NoError(t, err)
		record.Fields = append([]string(nil), record.Fields...)
		all = append(all, record)
	}
	return all
}

// large appends twenty messages of which a pipe holds none whole: their zero bytes are six characters each as JSON.
func (e *site) large(t *testing.T) {
	t.Helper()
	var ms []codec.Message
	for i := range 20 {
		ms = append(ms, codec.Message{Key: strconv.Itoa(i), Data: make([]byte, 20_000)})
	}
	_, err := e.writer(t, 1).AppendBatch(t.Context(), ms)
	require.NoError(t, err)
}

// declare writes what the scope's hash says of the stream.
func (e *site) declare(t *testing.T, value string) {
	t.Helper()
	addr, err := tier.ParseAddress(e.address)
	require.NoError(t, err)
	set := e.raw.B().Hset().Key(tier.ScopeKey(addr.Scope)).FieldValue().FieldValue(tier.StreamField(addr.Stream), value).Build()
	require.NoError(t, e.raw.Do(t.Context(), set).Error())
}
