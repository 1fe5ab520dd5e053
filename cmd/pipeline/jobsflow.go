package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/when"
	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/queue"
)

func jobsFlow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "flow QUEUE [FILE|-]",
		Short: "Enqueue a tree of jobs, each of which waits for its children",
		Long: `Enqueue a tree of jobs from a file or from standard input, as JSON: a job is due once
all of its children have ended. The first job is of QUEUE, another of that of its
parent, unless it names one:

  {"type": "report", "keep": "1h", "children": [
    {"type": "fetch", "data": {"page": 1}, "max_attempts": 5, "backoff": "10s"},
    {"type": "render", "queue": "images", "policy": {"dead": "ignore"}}]}

A job has "type", "data" (any JSON), "key", "headers", "queue", "lane", "delay" or "at",
"max_attempts", "backoff", "max_backoff", "timeout", "deadline", "keep", "tags",
"children"; and "policy", which says what it is to its parent when it ends as "dead",
"cancelled", "expired" or "removed": "fail" it, which is the default, "ignore" it, or
"continue" without the others. A flow has at most 4,096 jobs. The tree with the ids of
the jobs is printed; 'pipeline jobs show' shows what has become of it.`,
		Example: `  pipeline jobs flow billing report.json
  echo '{"type":"sum","children":[{"type":"count"},{"type":"count"}]}' | pipeline jobs flow billing`,
		Args: arguments(1, 2, "the name of a queue, and perhaps a file"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault // a file
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "-"
			if len(args) > 1 {
				file = args[1]
			}
			node, err := a.readFlow(file)
			if err != nil {
				return err
			}
			flow, err := node.flow("")
			if err != nil {
				return usagef("%s: %w", file, err)
			}
			return a.withJobs(cmd.Context(), args[0], func(ctx context.Context, _ *tier.Client, jobs *queue.Client) error {
				if _, err := jobs.EnqueueFlow(ctx, flow); err != nil {
					return err
				}
				return a.printFlow(args[0], flow)
			})
		},
	}
}

// flowJSON is a job of a flow as it is written.
type flowJSON struct {
	Type        string            `json:"type"`
	Data        json.RawMessage   `json:"data"`
	Key         string            `json:"key"`
	Headers     map[string]string `json:"headers"`
	Queue       string            `json:"queue"`
	Lane        string            `json:"lane"`
	Delay       lasting           `json:"delay"`
	At          instant           `json:"at"`
	MaxAttempts int               `json:"max_attempts"`
	Backoff     lasting           `json:"backoff"`
	MaxBackoff  lasting           `json:"max_backoff"`
	Timeout     lasting           `json:"timeout"`
	Deadline    instant           `json:"deadline"`
	Keep        lasting           `json:"keep"`
	Tags        []string          `json:"tags"`
	Policy      map[string]string `json:"policy"`
	Children    []flowJSON        `json:"children"`
}

// lasting is a length of time as flags have it, "10s".
type lasting time.Duration

func (l *lasting) UnmarshalText(text []byte) error {
	d, err := when.ParseDuration(string(text))
	*l = lasting(d)
	return err
}

// instant is a point of time as flags have it.
type instant time.Time

func (i *instant) UnmarshalText(text []byte) error {
	t, err := when.ParseEvent(string(text))
	*i = instant(t)
	return err
}

// maxFlowText is how large the text of a flow may be: more than a flow may weigh.
const maxFlowText = 32 << 20

func (a *app) readFlow(name string) (*flowJSON, error) {
	in := a.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fileError(name, err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFlowText+1))
	if err != nil {
		return nil, fileError(name, err)
	}
	if len(text) > maxFlowText {
		return nil, usagef("%s: a flow has at most %d bytes", name, maxFlowText)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	node := &flowJSON{}
	if err = d.Decode(node); err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return node, nil
		}
		err = errors.New("want one JSON object, and there is more")
	}
	at := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("want a JSON object, and the text ends")
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		at, err = kind.Offset, fmt.Errorf("%q: a %s is not what is wanted there", kind.Field, kind.Value)
	}
	if at >= 0 {
		name = fmt.Sprintf("%s:%d", name, 1+bytes.Count(text[:min(at, int64(len(text)))], []byte{'\n'}))
	}
	return nil, usagef("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
}

// effects are the words for what a child that does not complete is to its parent.
var effects = map[string]queue.Effect{"fail": queue.Fail, "ignore": queue.Ignore, "continue": queue.Continue}

// flow is the job with those below it; where says which it is.
func (n *flowJSON) flow(where string) (*queue.Flow, error) {
	if n.Type == "" {
		return nil, fmt.Errorf("%swant the type of the job: \"type\"", where)
	}
	f := &queue.Flow{Queue: n.Queue, Job: queue.Job{
		Message: codec.Message{Type: n.Type, Key: n.Key, Data: n.Data}, Lane: n.Lane, Delay: time.Duration(n.Delay), At: time.Time(n.At),
		Terms: tier.Terms{
			MaxAttempts: n.MaxAttempts, Backoff: time.Duration(n.Backoff), MaxBackoff: time.Duration(n.MaxBackoff), Timeout: time.Duration(n.Timeout),
			Deadline: time.Time(n.Deadline), Keep: time.Duration(n.Keep), Tags: n.Tags,
		},
	}}
	if n.Data != nil {
		f.Headers.Set(codec.HeaderContentType, "application/json")
	}
	for name, text := range n.Headers {
		f.Headers.Set(name, text)
	}
	for outcome, word := range n.Policy {
		effect := map[string]*queue.Effect{"dead": &f.Policy.Dead, "cancelled": &f.Policy.Cancelled, "expired": &f.Policy.Expired, "removed": &f.Policy.Removed}[outcome]
		if effect == nil || effects[word] == "" {
			return nil, fmt.Errorf("%spolicy %q: %q: want dead, cancelled, expired or removed, and fail, ignore or continue", where, outcome, word)
		}
		*effect = effects[word]
	}
	for i := range n.Children {
		child, err := n.Children[i].flow(fmt.Sprintf("%schildren[%d]: ", where, i))
		if err != nil {
			return nil, err
		}
		f.Children = append(f.Children, child)
	}
	return f, nil
}

// printFlow prints a flow that was enqueued.
func (a *app) printFlow(name string, f *queue.Flow) error {
	a.done++
	first := flowOf(name, f)
	if a.json() {
		return a.printObject(first)
	}
	var b strings.Builder
	b.WriteString(first.line() + "\n")
	draw(&b, first.Children, "")
	return a.print(b.String())
}

// flowOf is a flow of which nothing is known yet but ids.
func flowOf(name string, f *queue.Flow) childJSON {
	j := childJSON{Job: f.ID, Queue: name, Type: f.Type}
	if f.Queue != "" {
		j.Queue = f.Queue
	}
	for _, child := range f.Children {
		j.Children = append(j.Children, flowOf(j.Queue, child))
	}
	return j
}
