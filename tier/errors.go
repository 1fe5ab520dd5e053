package tier

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Reaction is what a caller does about a class of error.
type Reaction uint8

const (
	// Surface returns the error to whoever asked; trying again does not help.
	Surface Reaction = iota
	// BackOff tries again later, with a growing pause.
	BackOff
	// Heal repairs what is missing (a group, a script, a declaration) and tries again.
	Heal
)

// Class is a kind of failure with one stated reaction. Classes are sentinels: errors.Is(err, tier.ErrStoreFull).
type Class struct {
	Code     string // the code at the front of the server's reply, or a word of ours
	Reaction Reaction
	Advice   string // what the user does next
	unknown  bool   // a write that failed so may have happened
	of       *Class // the class that this one is a case of, or nil
}

func (c *Class) Error() string { return c.Advice }

// Is makes errors.Is find the class that this one is a case of.
func (c *Class) Is(target error) bool { return c.of != nil && target == c.of }

// The classes. Each has one reaction, which holds everywhere.
var (
	ErrNoGroup       = &Class{Code: "NOGROUP", Reaction: Heal, Advice: "the group or its stream does not exist: create it, or check the names"}
	ErrUnblocked     = &Class{Code: "UNBLOCKED", Reaction: Heal, Advice: "a blocked read was ended by the server: read again"}
	ErrNoScript      = &Class{Code: "NOSCRIPT", Reaction: Heal, Advice: "the server does not hold the script: it is sent again"}
	ErrReadOnly      = &Class{Code: "READONLY", Reaction: BackOff, Advice: "the server is a read-only replica: connect to its primary"}
	ErrLoading       = &Class{Code: "LOADING", Reaction: BackOff, Advice: "the server is loading its data: try again when it is ready"}
	ErrMasterDown    = &Class{Code: "MASTERDOWN", Reaction: BackOff, Advice: "the replica has lost its primary: wait for the failover"}
	ErrClusterDown   = &Class{Code: "CLUSTERDOWN", Reaction: BackOff, Advice: "the cluster does not serve this slot: wait for the failover, or check CLUSTER INFO"}
	ErrMoved         = &Class{Code: "MOVED", Reaction: BackOff, Advice: "the slot lives on another node: connect with the cluster's addresses"}
	ErrTryAgain      = &Class{Code: "TRYAGAIN", Reaction: BackOff, Advice: "the slot is being moved: try again"}
	ErrCutShort      = &Class{Code: "Script" /* "ERR Script attempted to access a non local key": it has no code of its own */, Reaction: BackOff, Advice: "the slot is being moved, and the script ended halfway, at a key that it had emptied: try again", unknown: true}
	ErrBusy          = &Class{Code: "BUSY", Reaction: BackOff, Advice: "the server is running a script that does not end: wait, or SCRIPT KILL"}
	ErrCrowded       = &Class{Code: "max" /* "ERR max number of clients reached": it has no code of its own */, Reaction: BackOff, Advice: "the server has no connection left: raise maxclients, or close idle clients"}
	ErrNoReplicas    = &Class{Code: "NOREPLICAS", Reaction: BackOff, Advice: "too few replicas follow for the server to take writes: start them, or lower min-replicas-to-write"}
	ErrNotReplicated = &Class{Code: "WAIT", Reaction: BackOff, Advice: "too few replicas have what was written, which is lost if the primary fails now: look at INFO replication, start replicas, or ask for fewer", unknown: true}
	ErrNotSynced     = &Class{Code: "WAITAOF", Reaction: BackOff, Advice: "what was written is not yet on the disks that were asked for, and is lost if the machine fails now: the server needs appendonly yes with an appendfsync other than no, and to be Valkey, or Redis 7.2 or later", unknown: true}
	ErrStoreFull     = &Class{Code: "OOM", Reaction: BackOff, Advice: "the server is full (maxmemory): trim, raise maxmemory, or wait for consumers that free memory"}
	ErrMisconf       = &Class{Code: "MISCONF", Reaction: BackOff, Advice: "the server cannot write to its disk and refuses writes: free disk space, see its log"}
	ErrPermission    = &Class{Code: "NOPERM", Reaction: Surface, Advice: "the user lacks a right: grant it with ACL SETUSER, docs/security.md has those of each role"}
	ErrUndeclared    = &Class{Code: "UNDECLARED", Reaction: BackOff, Advice: "the scope has lost what it says of the stream: whoever appends to it declares it again, and its messages wait until then"}
	ErrAuth          = &Class{Code: "NOAUTH", Reaction: Surface, Advice: "the server wants a user and a password: put them into the URL file or PIPELINE_URL"}
	errWrongPass     = &Class{Code: "WRONGPASS", Reaction: Surface, Advice: "the user or the password is wrong, or the user is switched off: check them in the URL (special characters are written as %XX)", of: ErrAuth}
	ErrWrongType     = &Class{Code: "WRONGTYPE", Reaction: Surface, Advice: "the key holds another type, so another program wrote to it: rename or delete it, or take another name"}
	ErrTLS           = &Class{Code: "TLS", Reaction: Surface, Advice: "no trusted connection: check ca, cert and key of the URL, and that the server's certificate holds the host as the URL has it"}
	ErrUnreachable   = &Class{Code: "UNREACHABLE", Reaction: BackOff, Advice: "the server cannot be reached: check the address, and that it runs"}
	ErrNetwork       = &Class{Code: "NETWORK", Reaction: BackOff, Advice: "the connection broke before the reply: look at the server's log, and try again", unknown: true}
	ErrTimeout       = &Class{Code: "TIMEOUT", Reaction: BackOff, Advice: "no reply within the call's time: check the server's load, and try again", unknown: true}
	ErrCancelled     = &Class{Code: "CANCELLED", Reaction: Surface, Advice: "the caller stopped waiting: give it longer", unknown: true}
	ErrClosed        = &Class{Code: "CLOSED", Reaction: Surface, Advice: "the client was closed: keep it open until its users have ended", unknown: true}
	ErrPartly        = &Class{Code: "PARTLY", Reaction: Surface, Advice: "a part of what was sent is done: look at what is there before all of it is sent again", unknown: true}
	ErrServer        = &Class{Code: "ERR", Reaction: Surface, Advice: "the server refused the command: its reply says why"}
)

var byCode = func() map[string]*Class {
	m := map[string]*Class{"ASK": ErrMoved}
	for _, c := range []*Class{
		ErrNoGroup, ErrUnblocked, ErrNoScript, ErrReadOnly, ErrLoading, ErrMasterDown, ErrClusterDown, ErrMoved,
		ErrTryAgain, ErrCutShort, ErrBusy, ErrCrowded, ErrNoReplicas, ErrStoreFull, ErrMisconf, ErrPermission, ErrAuth, errWrongPass, ErrWrongType,
	} {
		m[c.Code] = c
	}
	return m
}()

// Error is a failed call: what was tried, on which key, and of which class the failure is.
type Error struct {
	Op    string // the command or script
	Key   string // the first key, empty when there is none
	Class *Class
	Err   error // as the server or the network said it
}

func (e *Error) Error() string {
	where := e.Op
	if e.Key != "" {
		where += " " + e.Key
	}
	return fmt.Sprintf("tier: %s: %s (%v)", where, e.Class.Advice, e.Err)
}

// Unwrap gives the class and the cause, so that errors.Is finds either.
func (e *Error) Unwrap() []error { return []error{e.Class, e.Err} }

// PermissionError is the cause inside an Error of class ErrPermission: what the server's access list lacks.
type PermissionError struct {
	Command  string // empty when a key was refused
	Key      string // empty when a command was refused, or the server does not name it
	InScript bool   // the refusal came inside a script, which may have written before
	Text     string
}

func (e *PermissionError) Error() string { return e.Text }

// Partly is the error of a call of a script that has written before it met a right that is lacking, unless that is one of commands that it runs before
// its first write, by their names in lower case.
func Partly(op, key string, err error, before ...string) error {
	var p *PermissionError
	if !errors.As(err, &p) || !p.InScript || slices.Contains(before, strings.ToLower(p.Command)) {
		return err
	}
	return &Error{Op: op, Key: key, Class: ErrPartly, Err: err}
}

// Wrap gives a failed call its class; nil and "no such value" pass unchanged.
func Wrap(op, key string, err error) error {
	if err == nil || rueidis.IsRedisNil(err) || Classify(err) != nil {
		return err
	}
	var version *VersionError
	if errors.As(err, &version) {
		return err
	}
	class := classOf(err)
	if class == ErrPermission {
		err = permissionError(err)
	}
	return &Error{Op: op, Key: key, Class: class, Err: err}
}

// Classify is the class of an error that a call of this package returned. Compare it with errors.Is: a class may be a case
// of another one. It is nil for nil and for errors that no
// server and no connection made.
func Classify(err error) *Class {
	var class *Class
	errors.As(err, &class)
	return class
}

// classOf finds the class by the code at the front of a server's error, or by the kind of failure of the connection.
func classOf(err error) *Class {
	if class := Classify(err); class != nil {
		return class
	}
	if re, ok := rueidis.IsRedisErr(err); ok {
		return classOfText(re.Error())
	}
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, rueidis.ErrNoSlot), errors.Is(err, rueidis.ErrNoAddr):
		return ErrUnreachable
	case errors.Is(err, rueidis.ErrClosing):
		return ErrClosed
	case rueidis.IsParseErr(err):
		return ErrServer
	case errors.Is(err, context.Canceled):
		return ErrCancelled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return ErrTimeout
	default:
		return ErrNetwork
	}
}

// errBothEnds is why a connection may not come about whose other end says nothing that can be understood.
var errBothEnds = errors.New("is TLS on at both ends? (valkey:// or valkeys://)")

// unreachable is the error of a connection that was not made: nothing was sent on it.
func unreachable(op, key string, err error) error {
	class := ErrUnreachable
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var said *net.OpError
	if errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &said) && said.Op == "remote error" {
		class = ErrTLS
	}
	return &Error{Op: op, Key: key, Class: class, Err: err}
}

// refused is the error of a command that a server refused with a text.
func refused(op, key, text string) error {
	text = strings.TrimPrefix(text, "ERR ") // as the client library has it
	e := &Error{Op: op, Key: key, Class: classOfText(text), Err: errors.New(text)}
	if e.Class == ErrPermission {
		e.Err = permissionError(e.Err)
	}
	return e
}

// permissionInScript are what a refusal by the access list starts with inside a script, where it has no code: of Valkey
// and of Redis 7.0, which does not say which command or key.
var permissionInScript = []string{"ACL failure in script", "The user executing the script can't"}

// classOfText looks at the code at the front only: wordings differ between servers and versions. A script passes the
// code of a failed command on, at the front too.
func classOfText(text string) *Class {
	code, _, _ := strings.Cut(text, " ")
	if class := byCode[strings.TrimPrefix(code, "-")]; class != nil {
		return class
	}
	if refusedInScript(text) {
		return ErrPermission
	}
	return ErrServer
}

func refusedInScript(text string) bool {
	return slices.ContainsFunc(permissionInScript, func(front string) bool { return strings.HasPrefix(text, front) })
}

// permissionError takes command or key out of texts such as "User bob has no permissions to run the 'xadd' command" and
// "User bob has no permissions to access the 'k' key".
func permissionError(err error) error {
	text := err.Error()
	e := &PermissionError{InScript: refusedInScript(text), Text: text}
	if _, rest, ok := strings.Cut(text, " '"); ok { // with a space: not in "can't"
		name, tail, _ := strings.Cut(rest, "'")
		if strings.HasPrefix(tail, " key") {
			e.Key = name
		} else {
			e.Command = name
		}
	}
	return e
}

// OutcomeUnknown answers, after a failed write, whether it may have happened: the request may have reached the server
// and its reply did not arrive.
func OutcomeUnknown(err error) bool {
	class := Classify(err)
	return class != nil && class.unknown
}
