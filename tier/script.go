package tier

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

var (
	//go:embed lua/time.lua
	timeSource string
	timeScript = NewScript("time", timeSource)
)

// Script is one transition, run whole on the server. While a slot of a cluster moves, a server begins a script only if all its
// keys are there, and ends it halfway where it touches one that it has emptied. A script that does so has AtRestLine in its
// header: to its keys, on a cluster, AtRestKey is added behind the others, so that it is begun only where the slot stays.
type Script struct {
	Name   string
	Source string
	sha    string
	types  map[int]string // of the keys, by their index from 1, as the header says
	atRest bool
}

// AtRestLine marks a script that touches keys again that it may have emptied.
const AtRestLine = "-- At rest only: keys are touched again that it may have emptied."

// NewScript names a transition's source. It panics if the source does not open with "#!lua", which is what makes a
// server refuse keys of other slots, and writes when it is full.
func NewScript(name, source string) *Script {
	if !strings.HasPrefix(source, "#!lua") {
		panic("tier: script " + name + " does not start with #!lua")
	}
	sum := sha1.Sum([]byte(source))
	return &Script{
		Name: name, Source: source, sha: hex.EncodeToString(sum[:]), types: keyTypes(source),
		atRest: strings.Contains(source, "\n"+AtRestLine+"\n"),
	}
}

// keyTypes reads the types out of header lines such as "-- KEYS[1] log  STREAM".
func keyTypes(source string) map[int]string {
	types := map[int]string{}
	for line := range strings.Lines(source) {
		var index int
		var name, typ string
		if _, err := fmt.Sscanf(line, "-- KEYS[%d] %s %s", &index, &name, &typ); err == nil && typ == strings.ToUpper(typ) {
			types[index] = strings.ToLower(typ)
		}
	}
	return types
}

// AllowsOOM reports whether the script runs on a full server: those do that only free memory or change nothing.
func (s *Script) AllowsOOM() bool {
	line, _, _ := strings.Cut(s.Source, "\n")
	return strings.Contains(line, "allow-oom")
}

// Digest is what a server knows the script by.
func (s *Script) Digest() string { return s.sha }

// Code is the source without lines of comments and without indents, for who sends it each time: the server makes a digest of all that it is sent.
func (s *Script) Code() string {
	var code strings.Builder
	for line := range strings.Lines(s.Source) {
		if line = strings.TrimLeft(line, " "); !strings.HasPrefix(line, "--") {
			code.WriteString(line)
		}
	}
	return code.String()
}

// Call is one run of a script. All keys share one slot.
type Call struct {
	Script *Script
	Keys   []string
	Args   []string
}

// Run runs one script. The error, if any, is an *Error (see Wrap).
func (c *Client) Run(ctx context.Context, call Call) (rueidis.RedisMessage, error) {
	r := c.RunMulti(ctx, call)[0]
	return r.Message, r.Err
}

// Result is the outcome of one Call.
type Result struct {
	Message rueidis.RedisMessage
	Err     error // an *Error, see Wrap
}

// RunMulti sends the calls in one write, in order, on one connection; they share one slot. A call that the server does
// not know the script of is sent again with the source, after the others: callers that need order let their script
// refuse what comes out of order.
func (c *Client) RunMulti(ctx context.Context, calls ...Call) []Result {
	return c.runMulti(ctx, calls, c.pipe.DoMulti)
}

// sending is how commands are sent in one write.
type sending func(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult

func (c *Client) runMulti(ctx context.Context, calls []Call, send sending) []Result {
	results := make([]Result, len(calls))
	if err := oneSlot(calls); err != nil {
		for i := range results {
			results[i].Err = Wrap(calls[i].Script.Name, calls[i].Keys[0], err)
		}
		return results
	}
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	cmds := make([]rueidis.Completed, len(calls))
	for i, call := range calls {
		cmds[i] = c.evalsha(call)
	}
	var missing []int
	for i, r := range send(ctx, cmds...) {
		if results[i] = c.result(calls[i], r); Classify(results[i].Err) == ErrNoScript {
			missing = append(missing, i)
		}
	}
	if len(missing) > 0 {
		cmds = make([]rueidis.Completed, len(missing))
		for k, i := range missing {
			cmds[k] = c.eval(calls[i])
		}
		for k, r := range send(ctx, cmds...) {
			results[missing[k]] = c.result(calls[missing[k]], r)
		}
	}
	for i := range results {
		if Classify(results[i].Err) == ErrWrongType {
			c.nameWrongKey(ctx, calls[i], results[i].Err)
		}
	}
	return results
}

// nameWrongKey puts the key that holds another type than its script says into the error, which the server does not name.
func (c *Client) nameWrongKey(ctx context.Context, call Call, err error) {
	var e *Error
	if !errors.As(err, &e) {
		return
	}
	ask := make([]rueidis.Completed, len(call.Keys))
	for i, key := range call.Keys {
		ask[i] = c.pipe.B().Type().Key(key).Build()
	}
	for i, r := range c.pipe.DoMulti(ctx, ask...) {
		got, err := r.ToString()
		if want := call.Script.types[i+1]; err == nil && got != "none" && want != "" && got != want {
			e.Key = call.Keys[i]
			return
		}
	}
}

// evalsha runs a call by its script's digest, eval by its source, which a server that does not know it keeps.
func (c *Client) evalsha(call Call) rueidis.Completed {
	keys := c.keys(call)
	return c.pipe.B().Evalsha().Sha1(call.Script.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(call.Args...).Build()
}

func (c *Client) eval(call Call) rueidis.Completed {
	keys := c.keys(call)
	return c.pipe.B().Eval().Script(call.Script.Source).Numkeys(int64(len(keys))).Key(keys...).Arg(call.Args...).Build()
}

// Words are the call by its digest, as it goes over a connection of its own.
func (c *Client) Words(call Call) []string {
	keys := c.keys(call)
	return slices.Concat([]string{"EVALSHA", call.Script.sha, strconv.Itoa(len(keys))}, keys, call.Args)
}

// keys are those of the call, and where it is to run at rest only, one that never exists.
func (c *Client) keys(call Call) []string {
	if !call.Script.atRest || !c.server.Cluster {
		return call.Keys
	}
	for _, key := range slices.Backward(call.Keys) { // the first may be a log of another program
		if scope, ours := scopeOf(key); ours {
			return append(slices.Clip(call.Keys), AtRestKey(scope))
		}
	}
	panic("tier: script " + call.Script.Name + " has no key of a scope")
}

func (c *Client) result(call Call, r rueidis.RedisResult) Result {
	m, err := r.ToMessage()
	return Result{Message: m, Err: c.wrap(call.Script.Name, call.Keys[0], err)}
}

// oneSlot guards the client library's builder, which panics on keys of several slots.
func oneSlot(calls []Call) error {
	slot := Slot(calls[0].Keys[0])
	for _, call := range calls {
		if i := slices.IndexFunc(call.Keys, func(k string) bool { return Slot(k) != slot }); i >= 0 {
			return fmt.Errorf("%w: keys %q and %q lie on different slots", ErrServer, calls[0].Keys[0], call.Keys[i])
		}
	}
	return nil
}
