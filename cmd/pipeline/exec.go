package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
	"github.com/echomq/pipeline/cmd/pipeline/internal/words"
	"github.com/echomq/pipeline/codec"
)

// command is what --exec runs for each message.
type command struct {
	path string
	args []string
}

// commandLine is a command that can be run.
func commandLine(p **command) *value {
	return &value{kind: "CMD", set: func(s string) (err error) {
		*p, err = parseCommand(s)
		return err
	}}
}

func parseCommand(s string) (*command, error) {
	w, err := words.Split(s)
	if err != nil {
		return nil, err
	}
	if len(w) == 0 {
		return nil, errors.New(`want a command, as in ./send-mail or "sh -c '...'"`)
	}
	path, err := exec.LookPath(w[0])
	if err != nil {
		return nil, fmt.Errorf("%q is no program: %w", w[0], errors.Unwrap(err))
	}
	return &command{path: path, args: w[1:]}, nil
}

// killDelay is how long a command may take to end once it was told to: less than a
// consumer that stops waits for its handlers.
const killDelay = 500 * time.Millisecond

// run runs the command with a message on its standard input, and more in its environment. It ends with ctx.
func (c *command) run(ctx context.Context, a *app, r *codec.Record, more ...string) error {
	id := cmp.Or(r.ID.String(), r.Position.String())
	cmd := c.process(ctx, show.AppendJSON(nil, r), append(more, "PIPELINE_MESSAGE_ID="+id)...)
	cmd.Stdout, cmd.Stderr = a.out, a.err
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %s: %w", id, c.path, err)
	}
	return nil
}

// process is a child with a line on its standard input, that ends with ctx.
func (c *command) process(ctx context.Context, line []byte, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	ownGroup(cmd)
	cmd.WaitDelay = killDelay
	cmd.Env = append(environment(), env...)
	cmd.Stdin = bytes.NewReader(append(line, '\n'))
	return cmd
}

// environment is what a child gets of our environment: nothing that could be a
// secret of ours.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "USER"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
