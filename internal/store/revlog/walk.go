package revlog

import (
	"context"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

const (
	// checkEvery is how many keys are walked between two looks at the context.
	checkEvery = 4096
	// maxPageBytes is from which size on a page with a limit is cut.
	maxPageBytes = 1 << 20
	// maxRoom is for how many records of a page memory is taken before they are found.
	maxRoom = 1024
)

// walkPage collects the versions that page is made of, up to the first that its limit
// leaves out, and those of them that need their values. It sets page.More, and returns ctx's
// cause when ctx ends first.
func walkPage(ctx context.Context, keys *index.KeyMap, q store.Query,
	page *store.Page,
) (wants []wanted, unread []*wanted, err error) {
	wants = make([]wanted, 0, min(q.Limit, maxRoom))
	var places []int // of unread in wants, which may move while it grows
	bytes := 0
	visit := func(h index.History) (goOn bool) {
		i := h.At(page.Revision)
		if i < 0 || h.Versions[i].Deleted {
			return true
		}
		if page.More = q.Limit > 0 && len(wants) == q.Limit; page.More {
			return false
		}
		v := h.Versions[i]
		if q.Want == nil || q.Want(h.Key, v.Revision) {
			bytes += int(v.Size)
			if page.More = q.Limit > 0 && len(wants) > 0 && bytes > maxPageBytes; page.More {
				return false
			}
			places = append(places, len(wants))
		}
		wants = append(wants, wanted{key: h.Key, version: v})
		return true
	}
	walked := 0
	if h, ok := keys.Get(q.Start); q.End == "" && ok {
		visit(h)
	}
	keys.Ascend(q.Start, func(key string, h index.History) bool {
		walked++
		return key < q.End && visit(h) && (walked%checkEvery != 0 || ctx.Err() == nil)
	})
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	for _, i := range places {
		unread = append(unread, &wants[i])
	}
	return wants, unread, nil
}
