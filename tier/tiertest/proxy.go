package tiertest

import (
	"fmt"
	"maps"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server and fails as connections do, on
// command. It listens on loopback; [Proxy.URL] is what the client dials.
//
// It knows which reply answers which command, RESP2 and RESP3. A RESP2
// connection that subscribes is beyond it.
type Proxy struct {
	server *Server
	listen net.Listener
	wg     sync.WaitGroup

	mu       sync.Mutex
	links    map[*link]struct{}
	commands map[string]int
	plans    []*plan
	dropped  int
	attempts int
	delay    time.Duration
	refuse   bool
	gate     chan struct{} // closed: bytes pass
}

// plan is one fault to come: it happens to the next n commands that match.
type plan struct {
	n        int
	match    func(cmd []string) bool
	delivers bool // the command reaches the server, only its reply is lost
}

// fate is what happens to a command.
type fate int

const (
	passes fate = iota
	losesReply
	isLost
	tooLate
)

// NewProxy starts a proxy in front of s, which ends with the test. A server in
// cluster mode must be Private: its clients go to the address that it announces,
// which has to be the proxy's then.
func NewProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	if s.Kind.Cluster() && !s.private {
		t.Fatalf("tiertest: a proxy before a shared %s: its clients would go past it; use Private", s.Kind)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		server:   s,
		listen:   l,
		links:    map[*link]struct{}{},
		commands: map[string]int{},
		gate:     make(chan struct{}),
	}
	close(p.gate)
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	if s.Kind.Cluster() {
		if err := s.announce(l.Addr().(*net.TCPAddr).Port); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// URL is the proxy's address, as tier.Dial takes it.
func (p *Proxy) URL() string { return "valkey://" + p.listen.Addr().String() }

// DropReplies lets the next n commands that match reach the server, swallows
// their replies when they come, and cuts the connection at that moment: what
// was done is done, and nobody is told. What was answered before still arrives;
// what is answered after is lost as well. cmd is the command as it was sent,
// its name in upper case. A nil match is any command but those of a handshake.
func (p *Proxy) DropReplies(n int, match func(cmd []string) bool) {
	p.plan(&plan{n: n, match: match, delivers: true})
}

// DropNextReply is DropReplies for one command.
func (p *Proxy) DropNextReply(match func(cmd []string) bool) { p.DropReplies(1, match) }

// DropRequests cuts the connection instead of delivering the next n commands
// that match: they never reach the server, which to a client looks the same as
// a lost reply.
func (p *Proxy) DropRequests(n int, match func(cmd []string) bool) {
	p.plan(&plan{n: n, match: match})
}

func (p *Proxy) plan(pl *plan) {
	if pl.match == nil {
		pl.match = func(cmd []string) bool { return !handshake[cmd[0]] }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans = append(p.plans, pl)
}

// handshake are the commands that clients send on their own.
var handshake = map[string]bool{
	"HELLO": true, "AUTH": true, "CLIENT": true, "SELECT": true, "CLUSTER": true, "ROLE": true, "PING": true,
}

// Dropped is how many commands have lost their reply, or were lost. A test that
// checks it knows that its fault has happened.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Commands are the commands that clients have sent, by name in upper case.
func (p *Proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.commands)
}

// Connections is how many connections there are.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Attempts is how many connections clients have made so far, those to a server
// that was down as well.
func (p *Proxy) Attempts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempts
}

// Cut ends all connections. New ones are welcome.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// EndReplies closes one direction of all connections: clients read their end,
// while what they send still reaches the server, until that answers.
func (p *Proxy) EndReplies() { p.halfClose(func(l *link) net.Conn { return l.client }) }

// EndRequests closes the other direction: the server reads the end of all
// connections, and what it has not answered by then may be done or not.
func (p *Proxy) EndRequests() { p.halfClose(func(l *link) net.Conn { return l.server }) }

func (p *Proxy) halfClose(towards func(*link) net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		_ = towards(l).(interface{ CloseWrite() error }).CloseWrite()
	}
}

// Switch lets the connections that come from now on end at another server, as
// an address does that is moved to a promoted replica. Those that there are stay.
func (p *Proxy) Switch(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = s
}

func (p *Proxy) attempt() (to *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts++
	return p.server
}

// Refuse makes the proxy close new connections at once, or stop doing so. Those
// that there are stay.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// Delay holds whatever the server sends for d; 0 ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Freeze lets nothing pass in either direction, as a network that drops packets
// does; connections stay. A command that is being passed on may still get
// through.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
		p.gate = make(chan struct{})
	default: // frozen already
	}
}

// Thaw undoes Freeze: what was held goes on its way.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
	default:
		close(p.gate)
	}
}

func (p *Proxy) close() {
	p.listen.Close()
	p.Refuse(true) // for one that was just accepted
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		to := p.attempt()
		server, err := net.Dial(to.Network(), to.Addr())
		if err != nil {
			client.Close() // a server that is down: as near to a refusal as we get
			continue
		}
		l := &link{proxy: p, client: client, server: server, closed: make(chan struct{}), hung: make(chan struct{})}
		if !p.add(l) {
			l.close()
			continue
		}
		p.wg.Go(l.requests)
		p.wg.Go(l.replies)
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refuse {
		p.links[l] = struct{}{}
	}
	return !p.refuse
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// judge counts a command and says what is to happen to it. What a client sent on
// a connection that has ended since is not for a plan that was made after that.
func (p *Proxy) judge(l *link, cmd []string) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.ended() {
		return tooLate
	}
	p.commands[cmd[0]]++
	for _, pl := range p.plans {
		if pl.n == 0 || !pl.match(cmd) {
			continue
		}
		pl.n--
		if pl.delivers {
			return losesReply
		}
		return isLost
	}
	return passes
}

func (p *Proxy) countDropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

func (p *Proxy) passing() (gate <-chan struct{}, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate, p.delay
}

// announce makes a node in cluster mode name a port, instead of its own, to
// clients that ask where the slots are.
func (s *Server) announce(port int) error {
	conn, err := net.Dial(s.Network(), s.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	if _, err := conn.Write(encode("CONFIG", "SET", "cluster-announce-port", fmt.Sprint(port))); err != nil {
		return err
	}
	raw, _, err := newFrames(conn).reply()
	if err == nil && string(raw) != "+OK\r\n" {
		err = fmt.Errorf("tiertest: announce: %q", raw)
	}
	return err
}
