package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
)

// teller tells a person what happens: one line for each step, with how long it
// took.
type teller struct {
	out   io.Writer
	color bool
}

func number(n int) string { return show.Number(int64(n)) }

func rate(n int, d time.Duration) string { return show.Rate(n, d) }

// paint wraps text into an ANSI sequence, where there is colour.
func (t *teller) paint(code, text string) string {
	if !t.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const (
	bold  = "1"
	dim   = "2"
	green = "32"
	cyan  = "36"
)

func (t *teller) title(text string) {
	fmt.Fprintf(t.out, "%s\n\n", t.paint(bold, text))
}

// step begins with what is done, empty for more of the same, and how long it took,
// 0 for not yet.
func (t *teller) step(what string, took time.Duration, format string, args ...any) {
	time := ""
	if took > 0 {
		time = show.Duration(took)
	}
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(t.out, "  %s  %s  %s\n", t.paint(cyan, fmt.Sprintf("%-8s", what)), t.paint(dim, fmt.Sprintf("%6s", time)), text)
}

// more is a line below a step.
func (t *teller) more(format string, args ...any) {
	fmt.Fprintf(t.out, "%20s%s\n", "", t.paint(dim, fmt.Sprintf(format, args...)))
}

const networksShown = 9

// table shows what became of the events, network by network.
func (t *teller) table(r *Result) {
	rows := [][]string{{"network", ">published", ">handled", ">repeated", ">in the window"}}
	rest := Network{}
	for i, n := range r.Networks {
		if i < networksShown {
			rows = append(rows, cells(n))
			continue
		}
		rest.Published += n.Published
		rest.Handled += n.Handled
		rest.Repeated += n.Repeated
		rest.Window += n.Window
	}
	if more := len(r.Networks) - networksShown; more > 0 {
		rest.Name = fmt.Sprintf("%d others", more)
		rows = append(rows, cells(rest))
	}
	rows = append(rows, cells(r.Network))
	lines := strings.Split(strings.TrimSuffix(show.Table(rows), "\n"), "\n")
	fmt.Fprintln(t.out)
	for i, line := range lines {
		switch i {
		case 0:
			line = t.paint(dim, line)
		case len(lines) - 1:
			line = t.paint(bold, line)
		}
		fmt.Fprintf(t.out, "  %s\n", line)
	}
}

func cells(n Network) []string {
	return []string{n.Name, number(n.Published), number(n.Handled), number(n.Repeated), number(n.Window)}
}

func (t *teller) end(took time.Duration) {
	fmt.Fprintf(t.out, "\n  %s, in %s.\n", t.paint(green, "Nothing is lost and everything adds up"), show.Duration(took))
	fmt.Fprintf(t.out, "  %s\n", t.paint(dim, "Data: "+Credit))
}
