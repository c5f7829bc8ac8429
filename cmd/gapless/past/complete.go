package past

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
)

const (
	// completeWithin is how long a shell waits for what an argument may be; then there is nothing.
	completeWithin = time.Second
	// completed is how many names are asked for.
	completed = 500
)

// metadata is the form of a list of names.
const metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// completing returns what completes arguments by what the server has: resources, and the names of objects behind a slash,
// or as a second argument. Failures are silent, as a message would stand in the middle of what somebody types.
func (p Program) completing(connect connecting) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		s, err := p.open(connect)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.client.CloseIdle()
		resource, _, named := strings.Cut(typed, "/")
		prefix := resource + "/"
		if len(args) == 1 && !strings.Contains(args[0], "/") && cmd.Name() != "diff" { // which takes several resources
			resource, prefix, named = args[0], "", true
		}
		var all []string
		switch {
		case named:
			all = s.names(ctx, resource, prefix)
		case len(args) == 0 || cmd.Name() == "diff":
			all = s.resources(ctx)
		}
		all = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, typed) })
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// resources are the names of what can be listed, with the group where another one has the name, too.
func (s *session) resources(ctx context.Context) []string {
	found, _ := s.client.Resources(ctx) // without those whose server is away
	groups := map[string]string{}
	var all []string
	for _, r := range found {
		group, known := groups[r.Resource]
		switch {
		case !slices.Contains(r.Verbs, "list"), known && group == r.Group:
		case known:
			all = append(all, r.GroupResource().String())
		default:
			groups[r.Resource] = r.Group
			all = append(all, r.Resource)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// names are those of the objects of a resource, behind a prefix.
func (s *session) names(ctx context.Context, resource, prefix string) []string {
	t, err := s.find(ctx, named{resource: resource}, &selecting{})
	if err != nil {
		return nil
	}
	resp, err := s.client.Do(ctx, client.Request{
		Path: t.path(), Query: url.Values{"limit": {strconv.Itoa(completed)}}, Accept: metadata,
	})
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var list metav1.PartialObjectMetadataList
	raw, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	all := make([]string, len(list.Items))
	for i := range list.Items {
		all[i] = prefix + list.Items[i].Name
	}
	return all
}
