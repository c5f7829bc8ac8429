package wrap

import (
	"go/ast"
	"go/token"
	"strings"
)

// How much a place tears apart, beside how deep it lies.
const (
	perLevel = 10
	// shorter is what a brace of a literal or a function is better than the comma before it.
	shorter = 5
	// compared is what an operator is worse than && and ||, and what a dot between calls is.
	compared = 3 * perLevel
	// opened is what a parenthesis is worse than the comma behind an argument.
	opened = perLevel + shorter
	// splitString is what a string is worse than everything else.
	splitString = 1000
	// fewColumns is how long a literal is that gets no lines of its own.
	fewColumns = 40
	// leastRest is how many bytes of a string are left for the next line at least.
	leastRest = 20
)

// finder finds the places of a file.
type finder struct {
	w      *wrapper
	places map[int][]place // by line
}

// placesOf returns where the lines of a file can be broken.
func placesOf(file *ast.File, w *wrapper) map[int][]place {
	f := &finder{w: w, places: map[int][]place{}}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.function(d.Type, 0)
			f.body(d.Body, -shorter)
		case *ast.GenDecl:
			f.declaration(d)
		}
	}
	return f.places
}

func (f *finder) lineOf(p token.Pos) int { return f.w.tokens.Line(p) }

// add adds a place behind a position.
func (f *finder) add(behind token.Pos, depth int, text string) {
	at := f.w.tokens.Offset(behind)
	line := f.lineOf(behind)
	f.places[line] = append(f.places[line], place{[]edit{{at, at, text}}, depth})
}

// braces adds a place behind an opening brace: both braces get a line of their own.
func (f *finder) braces(open, closing token.Pos, before string, depth int) {
	from, to := f.w.tokens.Offset(open)+1, f.w.tokens.Offset(closing)
	line := f.lineOf(open)
	f.places[line] = append(f.places[line], place{[]edit{{from, from, "\n"}, {to, to, before + "\n"}}, depth})
}

// comma adds a place behind the comma that follows a node.
func (f *finder) comma(after token.Pos, depth int) {
	at := f.w.tokens.Offset(after)
	if at < len(f.w.src) && f.w.src[at] == ',' {
		f.add(after+1, depth, "\n")
	}
}

// function finds places in the types of a function's parameters and results.
func (f *finder) function(t *ast.FuncType, depth int) {
	for i, list := range []*ast.FieldList{t.Params, t.Results} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			f.comma(field.End(), depth+(2*i+1)*perLevel) // rather parameters than results
			f.expr(field.Type, depth+2*perLevel)
		}
	}
}

// body finds places in the statements of a function, and in its braces if it has one line.
func (f *finder) body(b *ast.BlockStmt, depth int) {
	if b == nil {
		return
	}
	if len(b.List) > 0 && f.lineOf(b.Lbrace) == f.lineOf(b.Rbrace) {
		f.braces(b.Lbrace, b.Rbrace, "", depth)
	}
	for _, s := range b.List {
		f.stmt(s, depth+perLevel)
	}
}

func (f *finder) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			f.list(spec.Values, 0)
			if spec.Type != nil {
				f.expr(spec.Type, perLevel)
			}
		case *ast.TypeSpec:
			f.expr(spec.Type, 0)
		}
	}
}

// list finds places behind the commas of a list, and in its expressions.
func (f *finder) list(all []ast.Expr, depth int) {
	if len(all) == 1 {
		f.expr(all[0], depth)
		return
	}
	for i, x := range all {
		if i < len(all)-1 {
			f.comma(x.End(), depth)
		}
		f.expr(x, depth+perLevel)
	}
}

// results is list for values that are returned or assigned: rather break one of them, which is
// mostly a call, than behind a short one before it.
func (f *finder) results(all []ast.Expr, depth int) {
	for i, x := range all {
		if i < len(all)-1 {
			f.comma(x.End(), depth+compared)
		}
		f.expr(x, depth)
	}
}

// stmt finds places in a statement. Those of other statements in it are on other lines, but
// for functions of one line.
func (f *finder) stmt(s ast.Stmt, depth int) {
	header := func(parts ...ast.Node) {
		for _, p := range parts {
			f.part(p, depth+perLevel)
		}
	}
	switch s := s.(type) {
	case *ast.AssignStmt:
		f.list(s.Lhs, depth+compared)
		f.results(s.Rhs, depth)
	case *ast.ReturnStmt:
		f.results(s.Results, depth)
	case *ast.IfStmt:
		header(s.Init, s.Cond)
		f.stmt(s.Body, 0)
		if s.Else != nil {
			f.stmt(s.Else, 0)
		}
	case *ast.ForStmt:
		header(s.Init, s.Cond, s.Post)
		f.stmt(s.Body, 0)
	case *ast.RangeStmt:
		header(s.X)
		f.stmt(s.Body, 0)
	case *ast.SwitchStmt:
		header(s.Init, s.Tag)
		f.stmt(s.Body, 0)
	case *ast.TypeSwitchStmt:
		header(s.Init, s.Assign)
		f.stmt(s.Body, 0)
	case *ast.SelectStmt:
		f.stmt(s.Body, 0)
	case *ast.CaseClause:
		f.list(s.List, depth)
		f.stmts(s.Body)
	case *ast.CommClause:
		header(s.Comm)
		f.stmts(s.Body)
	case *ast.BlockStmt:
		f.stmts(s.List)
	case *ast.LabeledStmt:
		f.stmt(s.Stmt, 0)
	case *ast.ExprStmt:
		f.expr(s.X, depth)
	case *ast.SendStmt:
		f.expr(s.Value, depth)
	case *ast.DeferStmt:
		f.expr(s.Call, depth)
	case *ast.GoStmt:
		f.expr(s.Call, depth)
	case *ast.DeclStmt:
		if d, ok := s.Decl.(*ast.GenDecl); ok {
			f.declaration(d)
		}
	}
}

func (f *finder) stmts(all []ast.Stmt) {
	for _, s := range all {
		f.stmt(s, 0)
	}
}

// part finds places in what a statement has before its block: a statement, an expression or
// nothing.
func (f *finder) part(n ast.Node, depth int) {
	switch n := n.(type) {
	case ast.Stmt:
		f.stmt(n, depth)
	case ast.Expr:
		f.expr(n, depth)
	}
}

// expr finds places in an expression.
func (f *finder) expr(x ast.Expr, depth int) {
	switch x := x.(type) {
	case *ast.CallExpr:
		f.call(x, depth)
	case *ast.CompositeLit:
		f.literal(x, depth)
	case *ast.FuncLit:
		f.function(x.Type, depth+perLevel)
		f.body(x.Body, depth-shorter)
	case *ast.BinaryExpr:
		f.binary(x, depth)
	case *ast.BasicLit:
		f.text(x)
	case *ast.KeyValueExpr:
		f.expr(x.Key, depth+perLevel)
		f.expr(x.Value, depth)
	case *ast.ParenExpr:
		f.expr(x.X, depth+perLevel)
	case *ast.UnaryExpr:
		f.expr(x.X, depth)
	case *ast.StarExpr:
		f.expr(x.X, depth)
	case *ast.SelectorExpr:
		if _, ok := x.X.(*ast.CallExpr); ok {
			f.add(x.Sel.Pos(), depth+compared, "\n")
		}
		f.inside(x.X, depth)
	case *ast.IndexExpr:
		f.inside(x.X, depth)
		f.expr(x.Index, depth+compared)
	case *ast.IndexListExpr:
		f.inside(x.X, depth)
		f.list(x.Indices, depth+compared)
	case *ast.SliceExpr:
		f.inside(x.X, depth)
	case *ast.TypeAssertExpr:
		f.inside(x.X, depth)
	case *ast.FuncType:
		f.function(x, depth)
	case *ast.StructType:
		f.fields(x.Fields, depth)
	case *ast.InterfaceType:
		f.fields(x.Methods, depth)
	case *ast.ArrayType:
		f.expr(x.Elt, depth)
	case *ast.MapType:
		f.expr(x.Value, depth)
	case *ast.Ellipsis:
		f.expr(x.Elt, depth)
	}
}

// inside is expr for the operand of a selector, an index or a slice, which cannot be split.
func (f *finder) inside(x ast.Expr, depth int) {
	if _, is := x.(*ast.BasicLit); !is {
		f.expr(x, depth)
	}
}

// fields finds places in the fields or methods of a type.
func (f *finder) fields(list *ast.FieldList, depth int) {
	if len(list.List) > 0 && f.lineOf(list.Opening) == f.lineOf(list.Closing) {
		f.braces(list.Opening, list.Closing, "", depth-shorter)
	}
	for _, field := range list.List {
		f.expr(field.Type, depth)
	}
}

// call finds places between the arguments of a call. A format is not torn from its text.
func (f *finder) call(x *ast.CallExpr, depth int) {
	f.inside(x.Fun, depth+perLevel)
	if len(x.Args) == 0 {
		return
	}
	f.add(x.Lparen+1, depth+opened, "\n")
	for i, arg := range x.Args {
		if i < len(x.Args)-1 {
			d := depth
			if i == 0 && isText(arg) && f.fitsBehind(arg.End(), x.End()) {
				d -= 1
			}
			f.comma(arg.End(), d)
			f.expr(arg, depth+perLevel)
			continue
		}
		f.last(arg, depth)
	}
}

// last is expr for the last argument of a call. The braces of a literal or a function belong
// there: call(a, T{…}) gets its lines between them, unless that would be a few words alone.
func (f *finder) last(arg ast.Expr, depth int) {
	lit := arg
	if x, is := arg.(*ast.UnaryExpr); is && x.Op == token.AND {
		lit = x.X
	}
	switch lit.(type) {
	case *ast.CompositeLit, *ast.FuncLit:
		if lit.End()-lit.Pos() > fewColumns {
			f.expr(lit, depth)
			return
		}
	}
	f.expr(arg, depth+perLevel)
}

// isText reports whether an expression is a string, which is a format in most calls with
// further arguments.
func isText(x ast.Expr) bool {
	lit, is := x.(*ast.BasicLit)
	return is && lit.Kind == token.STRING
}

// fitsBehind reports whether what lies between two positions of a line has room in one
// line that begins with some indentation.
func (f *finder) fitsBehind(from, to token.Pos) bool {
	a, b := f.w.tokens.Offset(from), f.w.tokens.Offset(to)
	text := string(f.w.src[a:b])
	start, _ := f.w.line(f.lineOf(from))
	line := string(f.w.src[start:a])
	indent := len(line) - len(strings.TrimLeft(line, "\t"))
	return !strings.Contains(text, "\n") && Columns(text)+(indent+2)*tabColumns <= f.w.columns
}

// literal finds places in a composite literal: behind its commas if it has its braces on lines
// of their own (gofumpt asks for that), otherwise at the braces.
func (f *finder) literal(x *ast.CompositeLit, depth int) {
	if x.Type != nil {
		f.expr(x.Type, depth+perLevel)
	}
	if len(x.Elts) == 0 {
		return
	}
	isOpen := f.lineOf(x.Lbrace) < f.lineOf(x.Elts[0].Pos())
	if !isOpen {
		end := ","
		if strings.Contains(string(f.w.src[f.w.tokens.Offset(x.Elts[len(x.Elts)-1].End()):f.w.tokens.Offset(x.Rbrace)]), ",") {
			end = ""
		}
		f.braces(x.Lbrace, x.Rbrace, end, depth-shorter)
	}
	for _, e := range x.Elts {
		if isOpen {
			f.comma(e.End(), depth)
		}
		f.expr(e, depth+perLevel)
	}
}

// binary finds places behind the operators of an expression.
func (f *finder) binary(x *ast.BinaryExpr, depth int) {
	cost := depth + compared
	if p := x.Op.Precedence(); p <= token.LAND.Precedence() { // || before &&
		cost = depth + p - 1
	} else if x.Op == token.ADD {
		cost = depth + perLevel
	}
	f.add(x.OpPos+token.Pos(len(x.Op.String())), cost, "\n")
	left := depth + perLevel
	if l, is := x.X.(*ast.BinaryExpr); is && l.Op.Precedence() <= token.LAND.Precedence() || is && l.Op == x.Op {
		left = depth
	}
	right := depth + perLevel
	if r, is := x.Y.(*ast.BinaryExpr); is && r.Op.Precedence() <= token.LAND.Precedence() {
		right = depth
	}
	f.expr(x.X, left)
	f.expr(x.Y, right)
}

// text finds places between the words of a string, and behind the commas of a raw one, which is
// JSON in most cases. One of several lines is split behind commas only.
func (f *finder) text(x *ast.BasicLit) {
	if x.Kind != token.STRING {
		return
	}
	quote, behind := x.Value[:1], " "
	if quote == "`" {
		behind = ", "
		if strings.Contains(x.Value, "\n") {
			behind = ","
		}
	}
	for i := 1; i < len(x.Value)-leastRest; i++ {
		if strings.IndexByte(behind, x.Value[i]) >= 0 {
			f.add(x.Pos()+token.Pos(i)+1, splitString, quote+" +\n"+quote)
		}
	}
}
