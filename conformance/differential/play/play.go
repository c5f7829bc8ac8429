// Package play runs scripts against a server and records the answers and their times.
//
// A [Server] is what is played against. A [Result] is what one step got: an [Answer], the
// [Frame] values of a stream, its [Ending]. A [Transcript] is the results of a script, in its
// order.
package play

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gapless-io/gapless/conformance/differential/script"
)

// Target is how to reach a server now. A restart may change it.
type Target struct {
	// URL has no path.
	URL string
	// TLS has the server's authority, and the client's certificate if it needs one.
	TLS *tls.Config
	// Token is a bearer token, or empty.
	Token string
}

// Server is what a script can do to a server besides asking it.
type Server interface {
	// Target returns how to reach it. It is called again after Forget, Restart and
	// Crash.
	Target() Target
	// Compact forgets the history so far. Caches may live on.
	Compact(ctx context.Context) error
	// Forget is Compact, and caches forget as well.
	Forget(ctx context.Context) error
	// Restart stops the server gracefully and starts it on the same data.
	Restart(ctx context.Context) error
	// Crash kills it and starts it on the same data.
	Crash(ctx context.Context) error
}

// Answer is a response, or why there was none.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
	// Took is how long it took from sending the request to the header.
	Took time.Duration
	// Failed is the error of the connection, if there was one.
	Failed error
}

// Moment is when something came on a stream.
type Moment struct {
	// SinceAction is the time since the script last did something to the server, or
	// since the stream was opened, whichever is shorter.
	SinceAction time.Duration
	// SinceOpen is the time since the stream was asked for.
	SinceOpen time.Duration
	// Deadline is the timeoutSeconds that the stream was opened with, or 0.
	Deadline time.Duration
}

// Frame is one event of a stream, as it was sent, without the line's end.
type Frame struct {
	Moment
	Raw []byte
}

// Ending is how a stream ended.
type Ending struct {
	Moment
	// How is clean, cut, or "close" with a code. It is open for a stream that did
	// not end in the time that the script gave it.
	How string
}

// Result is what a step got. Which fields are set depends on its verb.
type Result struct {
	Case string
	Step script.Step
	// Path is the path of a request, with its variables put in.
	Path   string
	Answer *Answer
	Frames []Frame
	Ending *Ending
	// Said is the result of a comparison or a ping.
	Said string
}

// Transcript is what a script got from a server.
type Transcript struct {
	Results []Result
	// Stopped is why the script could not be played to its end, or empty.
	Stopped string
}

// Play plays a script with the variables that are given, and closes what it opened.
// An answer is never an error: a script that cannot continue stops, and its transcript
// has the reason.
func Play(ctx context.Context, server Server, s script.Script, variables map[string]string) Transcript {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &player{server: server, variables: map[string]string{}, streams: map[string]*stream{}}
	maps.Copy(p.variables, variables)
	p.connect()
	defer p.leave()
	for _, c := range s.Cases {
		for _, step := range c.Steps {
			p.results = append(p.results, &Result{Case: c.Name, Step: step})
			if err := p.step(ctx, p.results[len(p.results)-1]); err != nil {
				p.later.Wait()
				return p.transcript(fmt.Sprintf("line %d: %v", step.Line, err))
			}
		}
	}
	p.later.Wait()
	return p.transcript("")
}

type player struct {
	server    Server
	target    Target
	transport *http.Transport
	variables map[string]string
	streams   map[string]*stream
	last      []byte // what capture and compare look at
	results   []*Result
	later     sync.WaitGroup

	// mu guards acted, which streams read.
	mu    sync.Mutex
	acted time.Time
}

func (p *player) transcript(stopped string) Transcript {
	t := Transcript{Stopped: stopped}
	for _, r := range p.results {
		t.Results = append(t.Results, *r)
	}
	return t
}

// connect takes the server's target, which is new after a restart.
func (p *player) connect() {
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	p.target = p.server.Target()
	p.transport = &http.Transport{TLSClientConfig: p.target.TLS.Clone(), DisableCompression: true}
}

func (p *player) leave() {
	for _, s := range p.streams {
		s.leave()
	}
	p.transport.CloseIdleConnections()
}

// act notes that the script does something to the server.
func (p *player) act() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acted = time.Now()
}

func (p *player) lastAct() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acted
}

func (p *player) step(ctx context.Context, r *Result) error {
	switch r.Step.Verb {
	case script.Request:
		return p.request(ctx, r)
	case script.Watch, script.Socket:
		return p.open(ctx, r)
	case script.Read, script.Quiet, script.End, script.Ping, script.Close:
		return p.onStream(ctx, r)
	case script.Capture:
		value, err := script.Member(p.last, r.Step.Member)
		p.variables[r.Step.Name] = value
		return err
	case script.Keep:
		if value, err := script.Member(p.last, r.Step.Member); err == nil {
			p.variables[r.Step.Name] = value
		}
		return nil
	case script.Edit:
		patch, err := p.expand(r.Step.Body)
		if err != nil {
			return err
		}
		p.variables[r.Step.Name], err = script.Patched(p.last, patch)
		return err
	case script.Compare:
		return p.compare(r)
	case script.Await:
		return p.await(ctx, r)
	case script.Pause:
		return wait(ctx, r.Step.Wait)
	case script.Join:
		p.later.Wait()
		return nil
	case script.Compact, script.Forget, script.Restart, script.Crash:
		return p.disturb(ctx, r.Step.Verb)
	}
	return fmt.Errorf("verb %d is not played", r.Step.Verb)
}

func (p *player) disturb(ctx context.Context, verb script.Verb) error {
	p.later.Wait()
	do := map[script.Verb]func(context.Context) error{
		script.Compact: p.server.Compact, script.Forget: p.server.Forget,
		script.Restart: p.server.Restart, script.Crash: p.server.Crash,
	}[verb]
	p.act()
	if err := do(ctx); err != nil {
		return err
	}
	p.connect()
	return nil
}

func (p *player) compare(r *Result) error {
	value, err := script.Member(p.last, r.Step.Member)
	if err != nil {
		return err
	}
	is, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return err
	}
	was, err := strconv.ParseInt(p.variables[r.Step.Name], 10, 64)
	if err != nil {
		return fmt.Errorf("$%s: %w", r.Step.Name, err)
	}
	switch {
	case is < was:
		r.Said = "less than $" + r.Step.Name
	case is > was:
		r.Said = "greater than $" + r.Step.Name
	default:
		r.Said = "equal to $" + r.Step.Name
	}
	return nil
}

// wait waits, or returns why it could not.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
