package blockzip_test

import (
	"bytes"
	"compress/gzip"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func block(p []byte) *blockzip.Block {
	return blockzip.Compress(func(write func([]byte)) {
		for len(p) > 0 { // in pieces, as items come
			n := min(len(p), 1000)
			write(p[:n])
			p = p[n:]
		}
	})
}

func text(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, `{"name":"object-%d","value":"%x"},`, r.IntN(1000), r.Uint64())
	}
	return b.Bytes()[:n]
}

// unzip reads exactly one gzip member with the standard library, which checks the
// length and the checksum.
func unzip(t testing.TB, zipped []byte) []byte {
	t.Helper()
	from := bytes.NewReader(zipped)
	z, err := gzip.NewReader(from)
	if err != nil {
		t.Fatalf("make a reader: %v", err)
	}
	z.Multistream(false)
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("read to the end: %v", err)
	}
	if from.Len() != 0 {
		t.Fatalf("%d bytes follow the member", from.Len())
	}
	return plain
}

func TestStreamOfBlocksIsOneGzipMember(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var want, zipped bytes.Buffer
		s := blockzip.NewStream(&zipped)
		for range r.IntN(20) {
			p := text(r, r.IntN(200_000))
			want.Write(p)
			if r.IntN(2) == 0 {
				s.Plain(p)
			} else {
				s.Block(block(p))
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if !bytes.Equal(unzip(t, zipped.Bytes()), want.Bytes()) {
			t.Fatalf("seed %d: other bytes came out", seed)
		}
	}
}

func TestBlockIsWrittenAsItWasBeforeCompression(t *testing.T) {
	for _, n := range []int{0, 1, 100, 1 << 20} {
		plain := bytes.Repeat([]byte("ab"), n)
		b := block(plain)
		for range 2 {
			var out bytes.Buffer
			if written, err := b.WriteTo(&out); err != nil || written != int64(len(plain)) || !bytes.Equal(out.Bytes(), plain) {
				t.Errorf("%d bytes of %d: %v", written, len(plain), err)
			}
		}
	}
	if _, err := block([]byte("ab")).WriteTo(&failing{}); err == nil {
		t.Error("a failed write is not reported")
	}
}

func TestBlockCanBeUsedInSeveralStreams(t *testing.T) {
	b := block(text(rand.New(rand.NewPCG(1, 2)), 100_000))
	if plain, compressed := b.Size(); plain != 100_000 || compressed > plain/2 {
		t.Errorf("%d bytes became %d", plain, compressed)
	}
	for range 2 {
		var zipped bytes.Buffer
		s := blockzip.NewStream(&zipped)
		s.Block(b)
		s.Block(b)
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if n := len(unzip(t, zipped.Bytes())); n != 200_000 {
			t.Errorf("%d bytes came out", n)
		}
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errors.New("gone")
	}
	return len(p), nil
}

func TestFailedWriteIsReportedAtTheEnd(t *testing.T) {
	s := blockzip.NewStream(&failing{after: 100})
	s.Plain(make([]byte, 1000))
	s.Block(block(make([]byte, 1000)))
	if err := s.Close(); err == nil || err.Error() != "gone" {
		t.Errorf("Close returned %v", err)
	}
}

func TestCacheReturnsABlockForTheSamePartsOnly(t *testing.T) {
	c, made := blockzip.NewCache(1<<20), 0
	get := func(form string, items ...uint64) *blockzip.Block {
		return c.Block(blockzip.Parts{Form: form, Items: items}, func() *blockzip.Block {
			made++
			return block([]byte(fmt.Sprint(form, items)))
		})
	}
	first := get("v1", 1, 2, 3)
	for _, other := range []*blockzip.Block{
		get("v2", 1, 2, 3), get("v1", 1, 2), get("v1", 1, 2, 3, 4), get("v1", 1, 3, 2), get("v1", 12, 3), get("v1"),
	} {
		if other == first {
			t.Error("another block was returned for other parts")
		}
	}
	if made != 7 || get("v1", 1, 2, 3) != first || made != 7 {
		t.Errorf("%d blocks were made", made)
	}
}

func TestCacheKeepsRecentlyUsedBlocksWithinItsBound(t *testing.T) {
	c := blockzip.NewCache(100_000)
	r := rand.New(rand.NewPCG(3, 4))
	get := func(item uint64) (made bool) {
		c.Block(blockzip.Parts{Items: []uint64{item}}, func() *blockzip.Block {
			made = true
			return block(text(r, 20_000))
		})
		return made
	}
	for item := range uint64(200) {
		get(item)
		if item > 0 && get(0) {
			t.Fatalf("what is used again and again was dropped at %d", item)
		}
		if c.Bytes() > 100_000 {
			t.Fatalf("%d bytes are held", c.Bytes())
		}
	}
	if !get(1) {
		t.Error("what was used long ago is still held")
	}
	if c.Block(blockzip.Parts{Form: "large"}, func() *blockzip.Block { return block(text(r, 2_000_000)) }); c.Bytes() > 100_000 {
		t.Errorf("%d bytes are held", c.Bytes())
	}
}

func TestAListLargerThanTheCacheUsesWhatFitsIntoIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fits, blocks = 100, 150
		r := rand.New(rand.NewPCG(3, 4))
		texts := make([][]byte, blocks)
		for i := range texts {
			texts[i] = text(r, 2_000)
		}
		list := func(c *blockzip.Cache, form string, n int) (made int) {
			for item := range uint64(n) {
				c.Block(blockzip.Parts{Form: form, Items: []uint64{item}}, func() *blockzip.Block {
					made++
					return block(texts[item])
				})
			}
			return made
		}
		measure := blockzip.NewCache(1 << 20)
		list(measure, "v1", blocks)
		c := blockzip.NewCache(fits * measure.Bytes() / blocks)
		for n := range 10 {
			// At best what does not fit is made again.
			if made := list(c, "v1", blocks); n > 0 && made > (blocks-fits)*3/2 {
				t.Errorf("list %d makes %d of %d blocks, of which %d fit", n, made, blocks, fits)
			}
		}
		made := 0
		for range 40 { // of another resource
			made = list(c, "v2", 10)
		}
		if made > 0 {
			t.Errorf("a small list beside it makes %d of its 10 blocks at last", made)
		}
		<-time.After(2 * time.Minute) // nobody lists the large one any more
		if list(c, "v3", 50); list(c, "v3", 50) > 0 {
			t.Error("blocks that are not in use are kept in preference to new ones")
		}
		<-time.After(time.Hour)
	})
}

func TestCacheEvictsUnusedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := blockzip.NewCache(1 << 20)
		get := func(form string) (made bool) {
			c.Block(blockzip.Parts{Form: form}, func() *blockzip.Block {
				made = true
				return block([]byte(form))
			})
			return made
		}
		get("used")
		get("unused")
		for range 3 {
			<-time.After(3 * time.Minute)
			if get("used") {
				t.Fatal("what is used again within minutes was dropped")
			}
		}
		if !get("unused") {
			t.Error("what nobody has used for 9 minutes is still held")
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if n := c.Bytes(); n != 0 {
			t.Errorf("%d bytes are held that nobody has used for an hour", n)
		}
		if !get("used") {
			t.Error("the block is still there")
		}
		<-time.After(time.Hour) // its timer ends in the test
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("a"), []byte{}, uint8(3))
	f.Fuzz(func(t *testing.T, a, b []byte, times uint8) {
		var zipped bytes.Buffer
		s := blockzip.NewStream(&zipped)
		blockA := block(a)
		var want []byte
		for range times % 8 {
			s.Block(blockA)
			s.Plain(b)
			want = append(append(want, a...), b...)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if !bytes.Equal(unzip(t, zipped.Bytes()), want) {
			t.Fatal("other bytes came out")
		}
	})
}

func TestACacheBesideAnotherFindsItsBlocksAndTakesNoPlaceOfThem(t *testing.T) {
	const bound = 1 << 20
	first := blockzip.NewCache(bound)
	beside := first.Beside(bound)
	random := make([]byte, 1000) // it takes no less room when it is packed
	_, _ = cryptorand.Read(random)
	block := func() *blockzip.Block { return blockzip.Plain(random) }
	parts := func(item uint64) blockzip.Parts { return blockzip.Parts{Form: "form", Items: []uint64{item}} }
	known := first.Block(parts(1), block)
	held := first.Bytes()
	if beside.Block(parts(1), block) != known {
		t.Error("the other's block was not found")
	}
	own := beside.Block(parts(2), block)
	if beside.Block(parts(2), block) != own || first.Bytes() != held || beside.Bytes() != held {
		t.Errorf("its own block is not kept, or not by it: %d bytes, and the other one has %d", beside.Bytes(), first.Bytes())
	}
	if first.Block(parts(2), block) == own {
		t.Error("the other one finds its blocks")
	}
}

func TestACacheBesideAnotherPacksPlainBlocks(t *testing.T) {
	const bound = 1 << 20
	beside := blockzip.NewCache(bound).Beside(bound)
	want := text(rand.New(rand.NewPCG(5, 6)), 100_000)
	parts := blockzip.Parts{Form: "form", Items: []uint64{1}}
	for range 3 { // made, and found
		b := beside.Block(parts, func() *blockzip.Block { return blockzip.Plain(want) })
		var written, zipped bytes.Buffer
		if _, err := b.WriteTo(&written); err != nil {
			t.Fatalf("write it: %v", err)
		}
		s := blockzip.NewStream(&zipped)
		s.Block(b)
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		size, _ := b.Size()
		if !bytes.Equal(b.Bytes(), want) || !bytes.Equal(written.Bytes(), want) || size != int64(len(want)) ||
			!bytes.Equal(unzip(t, zipped.Bytes()), want) {
			t.Fatalf("another block was kept: of %d bytes", size)
		}
	}
	if n := beside.Bytes(); n > int64(len(want))*3/4 {
		t.Errorf("%d bytes are held for %d", n, len(want))
	}
}

// TestCacheReturnsBlocksOfARowOfItems compares with what a map says.
func TestCacheReturnsBlocksOfARowOfItems(t *testing.T) {
	const bound = 1 << 20
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	first := blockzip.NewCache(bound)
	caches := []*blockzip.Cache{first, first.Beside(bound)}
	type made struct {
		form        string
		first, last uint64
	}
	known := map[made]bool{}
	for range 200 {
		m := made{form: []string{"a", "b"}[r.IntN(2)], first: r.Uint64N(30)}
		m.last = m.first + r.Uint64N(6)
		known[m] = true
		caches[r.IntN(2)].Block(blockzip.Parts{Form: m.form, Items: row(m.first, m.last)}, func() *blockzip.Block {
			return blockzip.Plain(fmt.Append(nil, m))
		})
	}
	found := 0
	for range 1000 {
		form, begin := []string{"a", "b", "c"}[r.IntN(3)], r.Uint64N(30)
		items := row(begin, begin+r.Uint64N(20))
		blocks := caches[1].Blocks(blockzip.Parts{Form: form, Items: items})
		var got, want []string
		for _, b := range blocks {
			got = append(got, string(b.Bytes()))
		}
		for at := begin; at <= items[len(items)-1]; {
			longest := made{}
			for m := range known {
				fits := m.form == form && m.first == at && m.last <= items[len(items)-1]
				if fits && (longest.form == "" || m.last > longest.last) {
					longest = m
				}
			}
			if longest.form == "" {
				want = nil
				break
			}
			want, at = append(want, fmt.Sprint(longest)), longest.last+1
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s %d: %v instead of %v", form, items, got, want)
		}
		found += len(got)
	}
	if found == 0 {
		t.Error("nothing was found: the test says nothing")
	}
	if (*blockzip.Cache)(nil).Blocks(blockzip.Parts{Items: row(1, 2)}) != nil {
		t.Error("no cache has blocks")
	}
}

func row(first, last uint64) (items []uint64) {
	for i := first; i <= last; i++ {
		items = append(items, i)
	}
	return items
}

// TestBlocksThatBeginWithOneItemAreFound: an object of a block changes again and again, and the newest blocks are what is
// asked for.
func TestBlocksThatBeginWithOneItemAreFound(t *testing.T) {
	c := blockzip.NewCache(1 << 20)
	items := func(i uint64) []uint64 { return []uint64{1, 1000 + i, 2} }
	const n = 500
	for i := range uint64(n) {
		c.Block(blockzip.Parts{Form: "f", Items: items(i)}, func() *blockzip.Block { return blockzip.Plain(fmt.Append(nil, i)) })
		if b := c.Blocks(blockzip.Parts{Form: "f", Items: items(i)}); len(b) != 1 || string(b[0].Bytes()) != fmt.Sprint(i) {
			t.Fatalf("the newest block, %d, is not found: %v", i, b)
		}
	}
	for i := range uint64(n) { // all are found by who makes them
		c.Block(blockzip.Parts{Form: "f", Items: items(i)}, func() *blockzip.Block {
			t.Errorf("block %d is made again", i)
			return blockzip.Plain(nil)
		})
	}
}
