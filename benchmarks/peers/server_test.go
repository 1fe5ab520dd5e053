package peers_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// installed is a program where Debian has it, or on PATH.
func installed(a *arena, name, debian string) string {
	found, err := filepath.Glob(debian + name)
	must(a.b, err)
	if len(found) > 0 {
		return found[len(found)-1]
	}
	path, err := exec.LookPath(name)
	if err != nil {
		a.b.Fatalf("no %s here: run scripts/setup peers", name)
	}
	return path
}

// child is a server of another kind, which ends with the benchmark, however that ends.
type child struct {
	pid  int
	gone chan struct{}
}

// start runs a server beside, whose CPU time counts from then on.
func (a *arena) start(cmd *exec.Cmd) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.WaitDelay = time.Second
	c := &child{gone: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // it dies with its thread
		err := cmd.Start()
		if started <- err; err == nil {
			_ = cmd.Wait()
		}
		close(c.gone)
	}()
	must(a.b, <-started)
	c.pid = cmd.Process.Pid
	a.b.Cleanup(func() {
		for pid := range descendants(a.b, c.pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-c.gone
		if a.b.Failed() {
			a.b.Log(said.String())
		}
	})
	a.beside = append(a.beside, c)
}

// cpu is how much CPU time a server has used, with all processes below it.
func (c *child) cpu(b *testing.B) (total time.Duration) {
	for _, used := range descendants(b, c.pid) {
		total += used
	}
	return total
}

// descendants are a process and all below it, with the CPU time of each and of those of its children that have ended.
func descendants(b *testing.B, pid int) map[int]time.Duration {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	must(b, err)
	below, used := map[int][]int{}, map[int]time.Duration{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		parent, _ := strconv.Atoi(fields[1])
		below[parent] = append(below[parent], id)
		for _, ticks := range fields[11:15] { // user, system, and of children
			n, _ := strconv.ParseInt(ticks, 10, 64)
			used[id] += time.Duration(n) * 10 * time.Millisecond // Linux has 100 a second
		}
	}
	all := map[int]time.Duration{}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		all[todo[0]] = used[todo[0]]
		todo = append(todo, below[todo[0]]...)
	}
	return all
}

// serverDir is for a server alone, as short as names of sockets must be.
func (a *arena) serverDir() string {
	dir, err := os.MkdirTemp("", "peer-")
	must(a.b, err)
	a.b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// freePort is one of loopback that nobody has at the moment.
func freePort(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// eventually repeats what fails while a server starts.
func (a *arena) eventually(try func() error) {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			a.b.Fatal(err)
		}
	}
}
