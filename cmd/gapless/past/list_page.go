package past

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
)

// heldBytes is how many bytes of a page of a list are held.
const heldBytes = 32 << 20

// listPage calls each for the items of a page of a list once it has read the page to its end, or heldBytes of it: each may
// wait for long, as it does for a pager that nobody scrolls, and servers cut off answers that are not read for a minute.
func listPage(ctx context.Context, c *client.Client, of client.Collection, o metav1.ListOptions,
	each func(raw []byte) error,
) (metav1.ListMeta, error) {
	var held [][]byte
	bytes := 0
	release := func() error {
		for _, raw := range held {
			if err := each(raw); err != nil {
				return err
			}
		}
		held = nil
		return nil
	}
	meta, err := c.List(ctx, of, o, func(raw []byte) error {
		held = append(held, raw)
		if bytes += len(raw); bytes > heldBytes {
			return release()
		}
		return nil
	})
	if err == nil {
		err = release()
	}
	return meta, err
}
