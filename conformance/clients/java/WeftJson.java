import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON for those who have no library for it: Map, List, String, BigDecimal, Boolean and null. This file
 * stands alone: copy it, or use a library in its place.
 */
public final class WeftJson {
    private final String text;
    private int at;

    private WeftJson(String text) {
        this.text = text;
    }

    /** The value of a text, IllegalArgumentException if it is not JSON. */
    public static Object read(String text) {
        var json = new WeftJson(text);
        try {
            Object value = json.value();
            if (json.next() != 0) {
                throw json.unexpected();
            }
            return value;
        } catch (StringIndexOutOfBoundsException cut) {
            throw json.unexpected();
        }
    }

    /** The text of a value, without white space. */
    public static String write(Object value) {
        var out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            String comma = "{";
            for (var entry : map.entrySet()) {
                quote(out.append(comma), (String) entry.getKey()).append(':');
                write(entry.getValue(), out);
                comma = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            String comma = "";
            out.append('[');
            for (Object item : items) {
                write(item, out.append(comma));
                comma = ",";
            }
            out.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(out, value.toString());
        }
    }

    private static StringBuilder quote(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c < ' ' || c == '"' || c == '\\') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"');
    }

    /** The next character that is no white space, 0 at the end; it is not passed over. */
    private char next() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private IllegalArgumentException unexpected() {
        return new IllegalArgumentException("it is not JSON at character " + at);
    }

    private Object value() {
        switch (next()) {
            case '{':
                Map<String, Object> map = new LinkedHashMap<>();
                for (at++; next() != '}'; comma('}')) {
                    String name = string();
                    if (next() != ':') {
                        throw unexpected();
                    }
                    at++;
                    map.put(name, value());
                }
                at++;
                return map;
            case '[':
                List<Object> list = new ArrayList<>();
                for (at++; next() != ']'; comma(']')) {
                    list.add(value());
                }
                at++;
                return list;
            case '"':
                return string();
            default:
                return scalar();
        }
    }

    private void comma(char end) {
        if (next() == ',') {
            at++;
        } else if (next() != end) {
            throw unexpected();
        }
    }

    private Object scalar() {
        int begin = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(begin, at);
        return switch (word) {
            case "null" -> null;
            case "true" -> true;
            case "false" -> false;
            default -> new BigDecimal(word); // NumberFormatException is an IllegalArgumentException
        };
    }

    private String string() {
        if (next() != '"') {
            throw unexpected();
        }
        var out = new StringBuilder();
        for (at++; text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            if (c == '\\') {
                c = text.charAt(++at);
                int plain = "nrtbf".indexOf(c);
                if (c == 'u') {
                    c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                    at += 4;
                } else if (plain >= 0) {
                    c = "\n\r\t\b\f".charAt(plain);
                }
            }
            out.append(c);
        }
        at++;
        return out.toString();
    }
}
