// Program run measures, and makes the report.
//
//	run bench	measures the product against its ceilings, and the codec: about three minutes
//	run peers	measures it against others: about ten minutes
//	run growth	measures what a message costs where there are more and more: about four minutes
//	run		makes the report of what was measured last
//
// It is run in the root of the repository, by make.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomq/pipeline/benchmarks/report"
)

// commands are what a run does. Their lines of JSON are results; those of Go benchmarks are made ones.
var commands = map[string][]string{
	"bench": {
		"bin/pipeline bench stream --json --count 50000",
		"bin/pipeline bench pack --json --count 50000",
		"bin/pipeline bench replay --json --count 50000",
		"bin/pipeline bench queue --json --count 20000",
		"bin/pipeline bench lanes --json --count 20000",
		"bin/pipeline bench bridge --json --count 20000",
		"bin/pipeline bench projection --json --count 50000",
		"bin/pipeline bench durability --json --count 10000",
		"go test -run xxx -bench ^Benchmark(En|De)code$ -benchtime 100ms -count 5 ./codec",
	},
	"growth": {
		"bin/pipeline bench growth --json --axis length --axis pending --most 10000000 --count 1000 --rounds 3",
		"bin/pipeline bench growth --json --axis groups --axis lanes --axis consumers --axis nodes --count 2000 --rounds 3",
	},
	"peers": {"go test -C benchmarks/peers -run xxx -bench . -benchtime 1x -timeout 0 ."},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
	case len(args) == 1 && commands[args[0]] != nil:
		if err := measure(ctx, args[0]); err != nil {
			return err
		}
	default:
		return errors.New("usage: run [bench|peers|growth]")
	}
	return report.Write(".")
}

// measure writes a results file, whole or not at all.
func measure(ctx context.Context, what string) (err error) {
	name := report.Name(".", what)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(file.Name())
			return
		}
		err = os.Rename(file.Name(), name)
	}()
	to := json.NewEncoder(file)
	if err := to.Encode(machine(ctx)); err != nil {
		return err
	}
	for _, command := range commands[what] {
		fmt.Fprintln(os.Stderr, "#", command)
		if err := errors.Join(to.Encode(report.Command{Command: command}), results(ctx, command, file)); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

// results runs a command and writes its results.
func results(ctx context.Context, command string, to io.Writer) error {
	words := strings.Fields(command)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	written := lines(out, to)
	return errors.Join(written, cmd.Wait())
}

// lines copies lines of JSON, and makes such of those of Go benchmarks. The rest is for who looks on.
func lines(from io.Reader, to io.Writer) error {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if b, ok := benchmark(line); ok {
			if err := json.NewEncoder(to).Encode(b); err != nil {
				return err
			}
		}
		if strings.HasPrefix(line, "{") {
			if _, err := io.WriteString(to, line); err != nil {
				return err
			}
		} else {
			fmt.Fprint(os.Stderr, line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// benchmark is what a line of a Go benchmark says that counts allocations: name-2, iterations, then values and their units.
func benchmark(line string) (b report.Benchmark, ok bool) {
	words := strings.Fields(line)
	name, found := strings.CutPrefix(line, "Benchmark")
	if !found || len(words) < 8 {
		return b, false
	}
	name, _, _ = strings.Cut(name, "-")
	b.Name = name
	for unit, to := range map[string]*float64{"ns/op": &b.Ns, "B/op": &b.Bytes, "allocs/op": &b.Allocs} {
		at := slices.Index(words, unit)
		if at < 1 {
			return b, false
		}
		value, err := strconv.ParseFloat(words[at-1], 64)
		if err != nil {
			return b, false
		}
		*to = value
	}
	return b, true
}

// machine is this one, now, as far as it tells.
func machine(ctx context.Context) report.Machine {
	m := report.Machine{
		Date: time.Now().UTC().Format(time.DateOnly), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), CPU: field("/proc/cpuinfo", "model name"), Load: "unknown",
	}
	if mhz, err := strconv.ParseFloat(field("/proc/cpuinfo", "cpu MHz"), 64); err == nil {
		m.CPU += fmt.Sprintf(", %.1f GHz", mhz/1000)
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		release, _, _ := strings.Cut(string(kernel), "-")
		m.System += ", kernel " + strings.TrimSpace(release)
	}
	if system := strings.Trim(field("/etc/os-release", "PRETTY_NAME"), `"`); system != "" {
		m.System += ", " + system
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	if commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(commit))
	}
	return m
}

// field is the value of the first line of a file that has a name, up to a colon or an equals sign.
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if at := strings.IndexAny(line, ":="); at >= 0 && strings.TrimSpace(line[:at]) == name {
			return strings.TrimSpace(line[at+1:])
		}
	}
	return ""
}
