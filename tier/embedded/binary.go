package embedded

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// ErrNoServer says that this machine has neither valkey-server nor
// redis-server on PATH. The error that wraps it says what to install.
var ErrNoServer = errors.New("embedded: neither valkey-server nor redis-server is on PATH")

// binaries are looked for in this order: Valkey is the reference.
var binaries = []string{"valkey-server", "redis-server"}

// Find returns the path of the server binary that Start uses when it is not
// told one: valkey-server, or else redis-server. It returns ErrNoServer,
// wrapped, when there is none.
func Find() (string, error) {
	for _, name := range binaries {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w; install it with: %s", ErrNoServer, Advice(onPath))
}

func onPath(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// installs are the commands that bring a server, by the package manager that
// they need. Homebrew is first: it may stand beside another one, and then it is
// the one its owner uses.
var installs = []struct{ manager, command string }{
	{"brew", "brew install valkey"},
	{"apt-get", "sudo apt-get install valkey-server" +
		" (Debian 12: add the suite bookworm-backports, then sudo apt-get install -t bookworm-backports valkey-server;" +
		" or the older sudo apt-get install redis-server)"},
	{"dnf", "sudo dnf install valkey"},
	{"apk", "sudo apk add valkey"},
	{"pacman", "sudo pacman -S valkey"},
}

// Advice returns the command that installs a server on a machine with the
// package managers for which have is true, or all commands known, when it has
// none of them.
func Advice(have func(manager string) bool) string {
	all := make([]string, 0, len(installs))
	for _, i := range installs {
		if have(i.manager) {
			return i.command
		}
		all = append(all, i.command)
	}
	return strings.Join(all, ", or ")
}
