package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
)

// confirm is how a command that destroys or changes much is agreed to: on a terminal by
// typing the name of what it is about, elsewhere by --yes.
type confirm struct {
	app    *app
	dryRun bool
	yes    bool
}

func (c *confirm) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only say what would be changed")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask; needed where there is no terminal")
}

var errNotConfirmed = errors.New("not confirmed: nothing was changed")

// possible refuses, before anything is sent, what nobody could be asked about.
func (c *confirm) possible() error {
	if c.dryRun || c.yes || (isTerminal(c.app.in) && isTerminal(c.app.err)) {
		return nil
	}
	return usagef("there is no terminal to ask on: give --yes, or --dry-run to see what would be changed")
}

// asked shows what would go, and returns when its name was typed.
func (c *confirm) asked(ctx context.Context, plan, name string) error {
	if c.yes {
		return nil
	}
	fmt.Fprintf(c.app.err, "%sType %s to go on: ", plan, show.Printable(name))
	line := make(chan string, 1)
	go func() { // it ends with the process, if nobody types
		text, _ := bufio.NewReader(c.app.in).ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	select {
	case text := <-line:
		if text != name {
			return errNotConfirmed
		}
		return nil
	case <-ctx.Done():
		fmt.Fprintln(c.app.err)
		return context.Cause(ctx)
	}
}
