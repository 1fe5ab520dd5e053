package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/embedded"
	"github.com/echomq/pipeline/tier/tiertest"
)

// What all tests share: the program, and a server. What runs while a test goes on is built like the test, with the race detector;
// a command that is run to its end is not, since to start it takes three times as long then.
var (
	binary  string // its name in a PATH is pipeline
	checked string
	shared  *tiertest.Server

	raceFlags []string // of a build with the race detector, when the test has it
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pipeline-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary, checked = filepath.Join(dir, "pipeline"), filepath.Join(dir, "checked")
		if err = build(binary); err == nil {
			err = build(checked, raceFlags...)
		}
	}
	if err == nil {
		var s *embedded.Server
		s, err = embedded.Start(context.Background(), embedded.Config{Dir: filepath.Join(dir, "server")})
		shared = &tiertest.Server{Server: s, Kind: tiertest.Valkey}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.Kill()
	_ = flag.Set("test.parallel", "6") // commands wait for servers, leases and each other more than they work
	return m.Run()
}

func build(path string, flags ...string) error {
	args := append([]string{"build", "-o", path, "-ldflags", "-X main.version=v0.0.0-test"}, flags...)
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// limit bounds what takes long only when it hangs.
const limit = 2 * time.Minute

// program is the program in an environment.
type program struct {
	t     testing.TB
	dir   string // of the files that it is given
	env   []string
	stdin string
}

// onShared is the program with the shared server.
func onShared(t testing.TB) *program { return onServer(t, shared.URL()) }

func onServer(t testing.TB, url string) *program {
	p := alone(t)
	p.env = append(p.env, "PIPELINE_URL="+url)
	return p
}

// alone is the program without a URL. Its directory has a short name, for sockets.
func alone(t testing.TB) *program {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt-")
	require.NoError(t, err)
	p := &program{t: t, dir: dir, env: []string{
		"PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir,
		"PIPELINE_DIR=" + filepath.Join(dir, "data"), "GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0",
	}}
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(dir, "data", "server.sock")); err == nil {
			p.run("streams", "none") // a program that was killed left the server to the next one, which ends it when it leaves
		}
		_ = os.RemoveAll(dir)
	})
	return p
}

// given returns the program with text on its standard input.
func (p *program) given(stdin string) *program {
	q := *p
	q.stdin = stdin
	return &q
}

// file writes a file into the program's directory.
func (p *program) file(name, text string) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
}

// result is how a run of the program ended.
type result struct {
	code        int
	out, errOut string
}

// lines are those of the standard output.
func (r result) lines() []string {
	if r.out == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
}

func (p *program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.Stdin = strings.NewReader(p.stdin)
	return cmd
}

// run runs the program to its end.
func (p *program) run(args ...string) result {
	p.t.Helper()
	var out bytes.Buffer
	r := p.runInto(&out, args...)
	r.out = out.String()
	return r
}

// runInto is run with a standard output of its own.
func (p *program) runInto(out io.Writer, args ...string) result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := p.command(ctx, args...)
	var errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errOut
	code := exitCode(p.t, cmd.Run())
	require.NoError(p.t, ctx.Err(), "%q hangs: %s", args, errOut.String())
	return result{code: code, errOut: errOut.String()}
}

// ok runs the program, which has to succeed.
func (p *program) ok(args ...string) result {
	p.t.Helper()
	r := p.run(args...)
	require.Zero(p.t, r.code, "%q: %s", args, r.errOut)
	return r
}

func exitCode(t testing.TB, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// process is a program that is running.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *bufio.Reader
	pipe   io.Closer
	mu     sync.Mutex
	errs   bytes.Buffer
}

// Write takes what the program says on standard error.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.Write(b)
}

func (p *process) errOut() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs.String()
}

// start runs the program beside the test.
func (p *program) start(args ...string) *process {
	p.t.Helper()
	return p.startOn(nil, args...)
}

// startOn is start with a standard input that the test goes on writing to.
func (p *program) startOn(stdin *os.File, args ...string) *process {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p.t.Cleanup(cancel)
	running := &process{t: p.t, cmd: p.command(ctx, args...)}
	running.cmd.Path = checked
	running.cmd.Stderr = running
	if stdin != nil {
		running.cmd.Stdin = stdin
		defer stdin.Close()
	}
	out, err := running.cmd.StdoutPipe()
	require.NoError(p.t, err)
	running.stdout, running.pipe = bufio.NewReader(out), out
	require.NoError(p.t, running.cmd.Start())
	p.t.Cleanup(func() {
		_ = running.cmd.Process.Kill()
		_ = running.cmd.Wait()
	})
	return running
}

// line waits for the next line of the standard output.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	require.NoError(p.t, err, "%s", p.errOut())
	return strings.TrimSuffix(line, "\n")
}

// closeOutput goes away, as head does.
func (p *process) closeOutput() error { return p.pipe.Close() }

// said waits until the program has said something on standard error.
func (p *process) said(text string) {
	p.t.Helper()
	tiertest.Eventually(p.t, limit/2, func() (bool, string) {
		said := p.errOut()
		return strings.Contains(said, text), fmt.Sprintf("%q is not in %q", text, said)
	})
}

// interrupted presses Ctrl-C and waits for the end.
func (p *process) interrupted() result {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGINT))
	return p.wait()
}

func (p *process) wait() result {
	p.t.Helper()
	var rest bytes.Buffer
	_, _ = rest.ReadFrom(p.stdout)
	code := exitCode(p.t, p.cmd.Wait())
	return result{code, rest.String(), p.errOut()}
}

// scope is a scope of the shared server that is audited at the end of the test.
func scope(t testing.TB) string { return tiertest.AuditedScope(t, shared) }
