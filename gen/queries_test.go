package gen

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weft-automation/weft/gen/db"
)

// postgres.Returning passes the fields of a query's parameters in their order, and decodes columns
// into the fields of a row in their order. The generated methods do the same for every query.
func TestFieldsOfQueriesAreInTheOrderOfTheirSQL(t *testing.T) {
	params, rows := 0, 0
	queries := reflect.ValueOf(db.New())
	for i := range queries.NumMethod() {
		name, method := queries.Type().Method(i).Name, queries.Method(i)
		if method.Type().NumIn() == 3 && method.Type().In(2).Name() == name+"Params" {
			params++
			argumentsAreInOrder(t, name, method)
		}
		row := method.Type().Out(0)
		if row.Kind() == reflect.Slice {
			row = row.Elem()
		}
		if row.Name() == name+"Row" {
			rows++
			columnsAreInOrder(t, name, method, row)
		}
	}
	if params < 100 || rows < 50 {
		t.Errorf("checked the parameters of %d queries and the rows of %d", params, rows)
	}
}

// argumentsAreInOrder sets one field of the parameters at a time and demands that the argument at
// the same place changes, and no other.
func argumentsAreInOrder(t *testing.T, name string, method reflect.Value) {
	fields := method.Type().In(2)
	for set := range fields.NumField() {
		arg, db := reflect.New(fields).Elem(), &recorder{}
		arg.Field(set).Set(nonZero(fields.Field(set).Type))
		call(t, method, db, arg)
		if !strings.HasPrefix(db.sql, "-- name: "+name+" :") || len(db.args) != fields.NumField() {
			t.Errorf("%s runs %.40q with %d arguments, and has %d parameters", name, db.sql, len(db.args), fields.NumField())
			return
		}
		for i, value := range db.args {
			if reflect.ValueOf(value).IsZero() == (i == set) {
				t.Errorf("%s: argument %d does not have the place of field %s", name, i+1, fields.Field(set).Name)
			}
		}
	}
}

// columnsAreInOrder returns a row in which one column is set and demands that the field at the same
// place is set, and no other.
func columnsAreInOrder(t *testing.T, name string, method reflect.Value, row reflect.Type) {
	for _, field := range reflect.VisibleFields(row) {
		if field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[time.Time]() {
			return // sqlc.embed, for which Returning fails
		}
	}
	for set := range row.NumField() {
		db := &recorder{row: true, set: set}
		args := []reflect.Value{}
		if method.Type().NumIn() == 3 {
			args = append(args, reflect.Zero(method.Type().In(2)))
		}
		out := call(t, method, db, args...)
		if out.Kind() == reflect.Slice {
			out = out.Index(0)
		}
		if db.columns != row.NumField() {
			t.Errorf("%s reads %d columns into %d fields", name, db.columns, row.NumField())
			return
		}
		for i := range row.NumField() {
			if out.Field(i).IsZero() == (i == set) {
				t.Errorf("%s: column %d does not have the place of field %s", name, set+1, row.Field(i).Name)
			}
		}
	}
}

// call calls a method of a query and returns its first result.
func call(t *testing.T, method reflect.Value, db db.DBTX, args ...reflect.Value) reflect.Value {
	return method.Call(append([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf(&db).Elem()}, args...))[0]
}

// nonZero returns a value that differs from the zero value.
func nonZero(of reflect.Type) reflect.Value {
	value := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Bool:
		value.SetBool(true)
	case reflect.String:
		value.SetString("x")
	case reflect.Slice:
		value.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.Array:
		value.Index(0).Set(nonZero(of.Elem()))
	case reflect.Pointer:
		value.Set(reflect.New(of.Elem()))
	case reflect.Struct: // time.Time
		value.Set(reflect.ValueOf(time.Unix(1, 0)))
	case reflect.Uint8:
		value.SetUint(1)
	case reflect.Float32, reflect.Float64:
		value.SetFloat(1)
	default:
		value.SetInt(1)
	}
	return value
}

// recorder records a statement, and returns one row if row is set.
type recorder struct {
	pgx.Rows
	sql     string
	args    []any
	row     bool
	set     int // column that is set
	columns int
}

var errRecorded = errors.New("recorded")

func (r *recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r.sql, r.args = sql, args
	return pgconn.CommandTag{}, nil
}

func (r *recorder) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	r.sql, r.args = sql, args
	if !r.row {
		return nil, errRecorded
	}
	return r, nil
}

func (r *recorder) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	r.sql, r.args = sql, args
	return r
}

func (r *recorder) Next() bool { return r.columns == 0 }
func (r *recorder) Close()     {}
func (r *recorder) Err() error { return nil }

func (r *recorder) Scan(into ...any) error {
	if r.columns = len(into); r.set < r.columns {
		place := reflect.ValueOf(into[r.set]).Elem()
		place.Set(nonZero(place.Type()))
	}
	return nil
}
