package pipeline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSetupInstallsWhatIsMissing for the tests and for the benchmarks against others, and touches nothing when it is all there. The machine is made of stubs: only
// what stands here is on PATH, and apt-get says what it was asked for.
func TestSetupInstallsWhatIsMissing(t *testing.T) {
	const aptGet = `echo "$@" >>"$LOG"; case " $* " in *" nodejs "*) printf '#!/bin/sh\necho %s\n' "$NODE" >"$BIN/node"; /bin/chmod 755 "$BIN/node" ;;
*" postgresql "*|*" rabbitmq-server "*) for name in $PROVIDES; do echo >"$BIN/$name"; /bin/chmod 755 "$BIN/$name"; done ;; esac`
	machine := map[string]string{
		"go":            `case "$2" in CC) echo gcc ;; GOVERSION) echo go1.26.0 ;; esac`,
		"gcc":           `:`,
		"id":            `echo 0`,
		"valkey-server": `echo "Valkey server v=8.0.1 sha=0"`,
		"redis-server":  `echo "Redis server v=7.0.15 sha=0"`,
		"apt-get":       aptGet,
		"tee":           `/bin/cat >/dev/null`, // nothing is written outside
		"chmod":         `:`,
		"rm":            `:`,
		"mkdir":         `:`,
	}
	const (
		install    = "-q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "
		node       = install + "nodejs\n"
		postgresql = install + "postgresql\n"
		rabbitmq   = install + "rabbitmq-server\n"
	)
	tests := []struct {
		name, mode     string
		node, packaged string   // "" for none; the version that the package has
		servers        []string // programs of peers that are there
		provides       string   // those that the package has
		asked, refusal string
	}{
		{name: "all is there", mode: "test", node: "v18.20.4"},
		{name: "no Node", mode: "test", packaged: "v18.20.4", asked: node},
		{name: "an old Node", mode: "test", node: "v16.1.0", packaged: "v20.1.0", asked: node},
		{name: "only an old one to be had", mode: "test", packaged: "v12.1.0", asked: node, refusal: "need Node 18 or later"},
		{name: "all peers are there", mode: "peers", servers: []string{"initdb", "postgres", "rabbitmq-server"}},
		{name: "no PostgreSQL", mode: "peers", servers: []string{"rabbitmq-server"}, provides: "initdb postgres", asked: postgresql},
		{name: "only its client", mode: "peers", servers: []string{"psql", "rabbitmq-server"}, provides: "initdb postgres", asked: postgresql},
		{name: "a package without the server", mode: "peers", provides: "psql", asked: postgresql, refusal: "need PostgreSQL 14 or later"},
		{name: "no RabbitMQ", mode: "peers", servers: []string{"initdb", "postgres"}, provides: "rabbitmq-server", asked: rabbitmq},
		{name: "RabbitMQ's tools without the server", mode: "peers", servers: []string{"initdb", "postgres"}, provides: "rabbitmqctl", asked: rabbitmq, refusal: "need RabbitMQ 3.9 or later"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			stub := func(name, body string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700))
			}
			for name, body := range machine {
				stub(name, body)
			}
			if tt.node != "" {
				stub("node", "echo "+tt.node)
			}
			for _, name := range tt.servers {
				stub(name, ":")
			}
			for _, tool := range []string{"sed", "dirname", "env"} {
				path, err := exec.LookPath(tool)
				require.NoError(t, err)
				require.NoError(t, os.Symlink(path, filepath.Join(dir, tool)))
			}
			log := filepath.Join(dir, "log")
			cmd := exec.Command("/bin/sh", "scripts/setup", tt.mode)
			cmd.Env = []string{"PATH=" + dir, "BIN=" + dir, "LOG=" + log, "NODE=" + tt.packaged, "PROVIDES=" + tt.provides}
			out, err := cmd.CombinedOutput()
			asked, _ := os.ReadFile(log)
			require.Equal(t, tt.asked, string(asked), string(out))
			if tt.refusal != "" {
				require.Error(t, err)
				require.Contains(t, string(out), tt.refusal)
				return
			}
			require.NoError(t, err, string(out))
			if tt.asked == "" {
				require.Empty(t, string(out))
			}
		})
	}
}
