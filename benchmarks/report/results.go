package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/echomq/pipeline/benchmarks/bench"
)

// Machine is where and when something was measured: the first line of a results file.
type Machine struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Go     string `json:"go"`
	System string `json:"system"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Load   string `json:"load"` // of a minute, before
}

// Benchmark is one run of a Go benchmark.
type Benchmark struct {
	Name   string  `json:"benchmark"`
	Ns     float64 `json:"ns_per_op"`
	Bytes  float64 `json:"bytes_per_op"`
	Allocs float64 `json:"allocs_per_op"`
}

// Command is one that was run, as it is typed; what it has printed follows.
type Command struct {
	Command string `json:"command"`
}

// Results are what a results file has: a line of JSON for each of them.
type Results struct {
	Machine    Machine
	Commands   []string
	Works      []bench.Result
	Points     []bench.Point // of what grows
	Turns      []Turn
	Benchmarks []Benchmark
}

// longest is the most bytes of a line.
const longest = 1 << 20

// Read reads a results file.
func Read(from io.Reader) (*Results, error) {
	r := &Results{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longest)
	for n := 1; lines.Scan(); n++ {
		if err := r.line(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("report: line %d: %w", n, err)
		}
	}
	return r, lines.Err()
}

// line takes one, of what kind it is its first field says.
func (r *Results) line(line []byte) error {
	var has struct {
		Date, Command, Axis, Work, Match, Benchmark *json.RawMessage
	}
	if err := json.Unmarshal(line, &has); err != nil {
		return err
	}
	switch {
	case has.Date != nil:
		return json.Unmarshal(line, &r.Machine)
	case has.Command != nil:
		var c Command
		err := json.Unmarshal(line, &c)
		r.Commands = append(r.Commands, c.Command)
		return err
	case has.Axis != nil:
		return appended(&r.Points, line)
	case has.Work != nil:
		return appended(&r.Works, line)
	case has.Match != nil:
		return appended(&r.Turns, line)
	case has.Benchmark != nil:
		return appended(&r.Benchmarks, line)
	}
	return fmt.Errorf("neither a machine, a command, a work, a match nor a benchmark: %.100s", line)
}

func appended[T any](list *[]T, line []byte) error {
	var one T
	err := json.Unmarshal(line, &one)
	*list = append(*list, one)
	return err
}
