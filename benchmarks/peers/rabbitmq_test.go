package peers_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

// rabbitPeer is RabbitMQ Streams on a broker of its own on loopback, with its defaults, but for the buffers of sockets.
type rabbitPeer struct {
	a    *arena
	port int
	on   string
}

func newRabbitMQ(a *arena) *rabbitPeer {
	dir, port, names := a.serverDir(), freePort(a.b), freePort(a.b)
	put := func(name, text string) (path string) {
		path = filepath.Join(dir, name)
		must(a.b, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	binary := installed(a, "rabbitmq-server", "/usr/lib/rabbitmq/bin/") // the one on PATH is for root and for its own user
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_LOGS=-",
		"RABBITMQ_NODENAME=bench@localhost", "RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + put("plugins", "[rabbitmq_stream]."),
		"RABBITMQ_CONFIG_FILE=" + put("rabbitmq.conf", fmt.Sprintf("listeners.tcp = none\nstream.listeners.tcp.1 = 127.0.0.1:%[1]s\n"+
			"stream.advertised_host = 127.0.0.1\nstream.advertised_port = %[1]s\n", port)),
		"RUNNING_UNDER_SYSTEMD=true", // no shell stays above it, so that it ends with the benchmark
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + names, "RABBITMQ_DIST_PORT=" + freePort(a.b),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, env
		return cmd
	}
	listens := func(port string) {
		a.eventually(func() error {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
	}
	a.start(command(installed(a, "epmd", "/usr/bin/"))) // or the broker leaves one behind
	listens(names)
	a.start(command(binary))
	listens(port)
	version, err := command(filepath.Join(filepath.Dir(binary), "rabbitmqctl"), "version").Output()
	must(a.b, err)
	p := &rabbitPeer{a: a, on: fmt.Sprintf("RabbitMQ %s, a log on disk that is not synced; "+
		"the consumer's offset each 10,000 messages and at the end; its client with socket buffers of 1 MiB", strings.TrimSpace(string(version)))}
	p.port, err = strconv.Atoi(port)
	must(a.b, err)
	return p
}

// both publishes without waiting for each, so many in a sub-entry, while a consumer stores its offset as its client does by default, until all are confirmed and the
// last is stored.
func (p *rabbitPeer) both(together, messages int) outcome {
	// Its own 8 KiB are an eighth of a segment on loopback: nearly every chunk fills the window, and the rest waits for the kernel's timer of 200 ms and more.
	const buffer, name = 1 << 20, "bench"
	env, err := stream.NewEnvironment(stream.NewEnvironmentOptions().SetHost("127.0.0.1").SetPort(p.port).SetReadBuffer(buffer).SetWriteBuffer(buffer))
	must(p.a.b, err)
	defer env.Close()
	must(p.a.b, env.DeclareStream(name, stream.NewStreamOptions()))
	defer func() { must(p.a.b, env.DeleteStream(name)) }()
	all, confirmed := newCountdown(messages), newCountdown(messages)
	c, err := env.NewConsumer(name, func(stream.ConsumerContext, *amqp.Message) { all.saw() },
		stream.NewConsumerOptions().SetConsumerName("g").SetOffset(stream.OffsetSpecification{}.First()).SetAutoCommit(stream.NewAutoCommitStrategy()))
	must(p.a.b, err)
	defer c.Close()
	w, err := env.NewProducer(name, stream.NewProducerOptions().SetSubEntrySize(together))
	must(p.a.b, err)
	defer w.Close()
	confirmations := w.NotifyPublishConfirmation()
	go func() {
		for list := range confirmations {
			for _, m := range list {
				if m.IsConfirmed() {
					confirmed.saw()
				}
			}
		}
	}()
	return p.a.measured(messages, func() {
		for range messages {
			must(p.a.b, w.Send(amqp.NewMessage(payload)))
		}
		confirmed.wait(p.a.b)
		all.wait(p.a.b)
		must(p.a.b, c.StoreOffset())
		for stored := int64(-1); stored < int64(messages)-1; {
			stored, err = c.QueryOffset()
			must(p.a.b, err)
		}
	})
}
