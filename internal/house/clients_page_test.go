package house_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// clients is compat/clients.json: the clients that are tested, and where their versions are.
type clients struct {
	Clients []struct {
		Client   string
		Versions []struct{ Version, File, Text string } // the file has the text, which has the version
		Runs     string
		Where    string
	}
}

const clientsBegin = "<!-- begin: written by go test ./internal/house -run TestClientsPageListsWhatIsTested -update -->\n"

// TestClientsPageListsWhatIsTested compares the versions in compat/clients.json with the files
// that pin them, and the list in docs/clients.md with compat/clients.json.
func TestClientsPageListsWhatIsTested(t *testing.T) {
	raw, err := os.ReadFile("compat/clients.json")
	if err != nil {
		t.Fatalf("read the list of clients: %v", err)
	}
	var list clients
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatalf("parse the list of clients: %v", err)
	}
	var page strings.Builder
	for _, c := range list.Clients {
		if _, err := os.Stat(c.Where); err != nil {
			t.Errorf("%s is tested in %s: %v", c.Client, c.Where, err)
		}
		var versions []string
		for _, v := range c.Versions {
			pinned, err := os.ReadFile(v.File)
			if err != nil {
				t.Errorf("%s %s: %v", c.Client, v.Version, err)
			}
			library := "0" + strings.TrimPrefix(v.Version, "1") // of Kubernetes 1.37.2 they are v0.37.2
			if !strings.Contains(string(pinned), v.Text) ||
				!strings.Contains(v.Text, v.Version) && !strings.Contains(v.Text, library) {
				t.Errorf("%s %s: %s should pin it by %q", c.Client, v.Version, v.File, v.Text)
			}
			versions = append(versions, v.Version)
		}
		listItem(&page,
			strings.Join(
				strings.Fields(fmt.Sprintf("**%s** %s: %s. `%s`", c.Client, strings.Join(versions, ", "), c.Runs, c.Where)), " "))
	}
	generated(t, "docs/clients.md", clientsBegin, strings.ReplaceAll(page.String(), "** :", "**:"))
}

// listItem writes an item of a list, in lines. It breaks no code.
func listItem(b *strings.Builder, text string) {
	line, code := "-", false
	for word := range strings.SplitSeq(text, " ") {
		if n := utf8.RuneCountInString(line); n > 2 && !code && n+1+utf8.RuneCountInString(word) > pageColumns {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
		code = code != (strings.Count(word, "`")%2 == 1)
	}
	b.WriteString(line + "\n")
}
