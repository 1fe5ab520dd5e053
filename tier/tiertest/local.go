package tiertest

import (
	"context"
	"log"
	"os"

	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/embedded"
)

// Local is a client of a server of its own, for an Example, which has no [testing.TB]; a program would only dial. What goes
// wrong ends the process. end closes the client and kills the server.
func Local(ctx context.Context) (client *tier.Client, end func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	server, err := embedded.Start(ctx, embedded.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	client, err = tier.Dial(ctx, server.URL(), tier.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Kill()
		_ = os.RemoveAll(dir)
	}
}
