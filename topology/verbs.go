package topology

import (
	"slices"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/topology/stage"
)

// output is a stream that a stage appends to.
type output struct {
	address string
	field   string // that names it, below the stage
	label   string // what goes there, in a word; empty: what the stage is for
}

// outputs are those of a stage, as it declares them.
func outputs(c *stage.Config) (list []output) {
	add := func(address, field, label string) {
		if address != "" {
			list = append(list, output{address, field, label})
		}
	}
	add(c.To, "to", "")
	for i, r := range c.Route {
		label := strings.Join(strings.Fields(string(r.When)), " ")
		if label == "" {
			label = "else"
		}
		add(r.To, "route."+strconv.Itoa(i)+".to", label)
	}
	if c.Throttle != nil {
		add(c.Throttle.Over, "throttle.over", "over")
	}
	if c.Window != nil {
		add(c.Window.Late, "window.late", "late")
	}
	return list
}

// drops tells whether a message may end in a stage of a cycle: inside says of a stream whether it is in it. What adds messages up
// or passes them all on keeps what goes round going round.
func drops(c *stage.Config, inside func(address string) bool) bool {
	switch c.Verb() {
	case "filter", "dedupe", "exec", "func":
		return true
	case "throttle":
		return c.Throttle.Over == "" || !inside(c.Throttle.Over)
	case "join":
		return c.Join.Missing == "drop"
	case "decide":
		return c.Decide.Refuse != "" || !slices.ContainsFunc(c.Decide.Events, func(e stage.Event) bool { return e.When == "" })
	case "route":
		for _, r := range c.Route {
			if !inside(r.To) {
				return true
			}
		}
		return c.Route[len(c.Route)-1].When != ""
	}
	return false
}

// sourceVerb is where a source has its messages from.
func sourceVerb(c *stage.SourceConfig) string {
	switch {
	case c.File != nil:
		return "file"
	case c.Stdin != nil:
		return "stdin"
	case c.HTTP != nil:
		return "http"
	case c.Watermill != nil:
		return "watermill"
	}
	return ""
}

// sinkVerb is where a sink takes them.
func sinkVerb(c *stage.SinkConfig) string {
	switch {
	case c.File != nil:
		return "file"
	case c.Stdout != nil:
		return "stdout"
	case c.Webhook != nil:
		return "webhook"
	case c.Watermill != nil:
		return "watermill"
	}
	return ""
}
