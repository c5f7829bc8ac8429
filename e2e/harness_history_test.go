package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

// knownHistory is a server whose configmaps have a known history; moments are the
// resourceVersions after its steps.
type knownHistory struct {
	*launched

	moments map[string]string
}

// launchHistory launches a server and makes the history.
func launchHistory(t *testing.T) *knownHistory {
	t.Helper()
	w := &knownHistory{launched: launch(t, gapless.Config{}), moments: map[string]string{}}
	c := w.caller(t, http1)
	c.namespace("default-b") // sorts before default/, as a key
	w.moments["empty"] = c.current()
	w.moments["a"] = c.create("default", "a", "1").rv()
	w.moments["b"] = c.create("default", "b", "1").rv()
	w.moments["c"] = c.create("default", "c", "1").rv()
	w.moments["b2"] = c.relabel("default", "b", "2").rv()
	c.remove("default", "c")
	w.moments["gone"] = c.current()
	w.moments["d"] = c.create("default-b", "d", "1").rv()
	w.moments["future"] = strconv.FormatInt(number(t, w.moments["d"])+1000, 10)
	return w
}

// in replaces {moment} in a text.
func (w *knownHistory) in(text string) string {
	for name, rv := range w.moments {
		text = strings.ReplaceAll(text, "{"+name+"}", rv)
	}
	return text
}
