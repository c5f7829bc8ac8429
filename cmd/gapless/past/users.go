package past

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gapless-io/gapless/kube"
)

// users are who made changes, by the resourceVersions of the changes.
type users map[kube.ResourceVersion]user

// user is who made a change. sent is when, if that is a guess: the answer to a request has a resourceVersion, which a
// request that changed nothing has of an earlier change.
type user struct {
	name string
	sent time.Time
}

// made reports whether it can be the user of a change at a time: clocks differ, and a relay sees a change later.
func (u user) made(at time.Time) bool {
	const later = 5 * time.Second
	return u.sent.IsZero() || !u.sent.After(at.Add(later))
}

// usersIn reads a file with the events of the audit log of a server, for the changes of a resource.
func usersIn(path string, t target) (users, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read --audit-log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	found, err := readUsers(f, t)
	if err != nil {
		return nil, fmt.Errorf("read --audit-log %s: %w", path, err)
	}
	return found, nil
}

// event has the fields of an audit event that are needed.
type event struct {
	Kind       string `json:"kind"`
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Impersonated *struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	Object *struct {
		Resource string `json:"resource"`
		Group    string `json:"apiGroup"`
	} `json:"objectRef"`
	Response struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	} `json:"responseObject"`
	Annotations map[string]string `json:"annotations"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
}

// changeKey is the annotation with the resourceVersion of a change (docs/audit.md).
const changeKey = "gapless.io/resource-version"

// readUsers reads events, one a line. The last line may be incomplete: it is being written.
func readUsers(in io.Reader, t target) (users, error) {
	found := users{}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var e event
		if json.Unmarshal(line, &e) != nil || e.Kind != "Event" {
			return nil, fmt.Errorf("line %d is no audit event in JSON, which --audit-log-format json makes", n)
		}
		rv, changed := e.change(t)
		if _, earlier := found[rv]; changed && !earlier { // a later request that changed nothing has the same one
			found[rv] = e.user()
		}
	}
}

// change is the resourceVersion of the change that was made, if it was one of the resource.
func (e *event) change(t target) (kube.ResourceVersion, bool) {
	if e.Stage != "ResponseComplete" || e.Object == nil || e.Object.Resource != t.resource.Resource ||
		e.Object.Group != t.resource.Group {
		return 0, false
	}
	text, annotated := e.Annotations[changeKey]
	if !annotated { // as in the log of kube-apiserver, behind a relay
		switch e.Verb {
		case "create", "update", "patch", "delete":
		default:
			return 0, false
		}
		if strings.Contains(e.RequestURI, "dryRun=") {
			return 0, false
		}
		text = e.Response.Metadata.ResourceVersion
	}
	rv, err := kube.ParseResourceVersion(text)
	return rv, err == nil && rv != 0
}

// user is the user that the request ran as, and, if that is another one, who sent it.
func (e *event) user() user {
	of := user{name: e.User.Username}
	if e.Impersonated != nil {
		of.name = e.Impersonated.Username + " (" + e.User.Username + ")"
	}
	if _, annotated := e.Annotations[changeKey]; !annotated {
		of.sent = e.Received
	}
	return of
}
