// Package script is the language in which the differential suite says what a client
// does. A [Script] is a file of cases; a [Case] is a name and the steps that show
// it; a [Step] is one line, with the lines that are indented below it.
//
// It has these words:
//
//	# a comment                    full: the whole file runs in the full form only
//	case some words                begins a case
//	GET path                       any method; below it, indented: "Name: value"
//	                               headers, then a body that begins with { or [ or <
//	& GET path                     the same, not waited for before the next step
//	~ PATCH path                   the same, of whose answer only the code is compared
//	create foos ns/name {…}        POST; the object gets kind and name
//	patch foos ns/name {…}         merge patch
//	delete foos ns/name            DELETE
//	capture x .metadata.continue   sets $x to a member of the answer before
//	keep x .metadata.uid           the same, and leaves $x as it is if there is no such member
//	edit x {"a":null}              sets $x to the answer before, after a merge patch: {} if it is no object, or a Status
//	compare x .metadata.continue   reports whether that is <, = or > $x, as numbers
//	watch w path                   opens a stream, headers below it
//	socket w path                  opens it as a WebSocket
//	ping w                         sends a WebSocket ping and waits for the pong
//	read w 3 70s                   waits until 3 more frames came, at most 70 s
//	quiet w 2s                     takes what comes within 2 s
//	end w 10s                      takes what comes until the stream ends
//	close w                        leaves
//	await 200 path                 sends GETs until one is answered so
//	await 403 POST path            the same with another method, headers and a body
//	compact                        history so far is compacted
//	forget                         the same, and caches with it
//	restart, crash                 what they say, of the server
//	pause 3s                       waits
//	join                           waits for the answers of all & steps
//
// $x and ${x+5} in paths, headers and bodies stand for what was captured. $group,
// $api (the group's v1), $foos (those of namespace n), $bars and $crds are set, and $hook and
// $hookca, the URL and the certificate of a webhook that converts.
package script

import (
	"slices"
	"time"
)

// Verb says what a step does.
type Verb int

// The verbs. Their words are in the package comment.
const (
	Request Verb = iota
	Capture
	Compare
	Watch
	Socket
	Ping
	Read
	Quiet
	End
	Close
	Await
	Compact
	Forget
	Restart
	Crash
	Pause
	Join
	Keep
	Edit
)

// Script is a parsed file.
type Script struct {
	// Name is the file's, without its ending.
	Name string
	// Full says that it takes too long for the short form.
	Full bool
	// Cases are in the order of the file. There is at least one.
	Cases []Case
}

// Timed reports whether what a server shows may depend on how busy the machine is: a watch has a deadline, ticks and
// bookmarks, and a tick may come before or after another step.
func (s *Script) Timed() bool {
	return slices.ContainsFunc(s.Cases, func(c Case) bool {
		return slices.ContainsFunc(c.Steps, func(one Step) bool { return one.Verb == Watch || one.Verb == Socket })
	})
}

// Case is what a row of the report is about.
type Case struct {
	Name  string
	Steps []Step
}

// Field is a header as it is to be sent.
type Field struct{ Name, Value string }

// Step is one thing to do. Which fields count depends on the verb.
type Step struct {
	Verb Verb
	// Line is the line in the file, from 1, and Text is what it says.
	Line int
	Text string
	// Method, Path, Header and Body are the request's, before variables are put in. The body of Edit is its patch.
	Method, Path string
	Header       []Field
	Body         string
	// Later says that the answer is not waited for, CodeOnly that the rest of it is
	// not compared.
	Later, CodeOnly bool
	// Name is the variable or the stream.
	Name string
	// Member is what to capture or compare: names after dots, numbers in brackets.
	Member string
	// Code is what Await waits for.
	Code int
	// Frames is how many to read.
	Frames int
	// Wait bounds what waits, or is how long to pause.
	Wait time.Duration
}
