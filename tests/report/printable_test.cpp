#include "analyzer/report/printable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heapspy::report {
namespace {

using ::testing::ElementsAre;

TEST(Printable, KeepsPlainAndForeignText) {
  EXPECT_EQ(printable("zip-storm-worker-13"), "zip-storm-worker-13");
  EXPECT_EQ(printable("Fäden 線程 🧵"), "Fäden 線程 🧵");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\nb\tc\x1b[31mred\x07\x7f"), "a\\nb\\tc\\x1b[31mred\\x07\\x7f");
  EXPECT_EQ(printable(std::string("nul\0end", 7)), "nul\\x00end");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // the one-character CSI
}

TEST(Printable, EscapesWhatTurnsOrHidesText) {
  EXPECT_EQ(printable("a\u202Eb"), "a\\u202eb");
  EXPECT_EQ(printable("a\u200Bb\uFEFF"), "a\\u200bb\\ufeff");
}

TEST(Printable, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("cut\xe7\xb7"), "cut\\xe7\\xb7");
}

TEST(Printable, MeasuresAndCutsByColumns) {
  EXPECT_EQ(columns("線程"), 4u);
  EXPECT_EQ(fit("abcdef", 6), "abcdef");
  EXPECT_EQ(fit("abcdefg", 6), "abcde…");
  EXPECT_EQ(fit("線程線程", 5), "線程…");
  EXPECT_EQ(fit("線程線程", 4), "線…");
  EXPECT_EQ(fit("a", 0), "");
  EXPECT_EQ(left("ab", 4), "ab  ");
  EXPECT_EQ(right("ab", 4), "  ab");
  EXPECT_EQ(columns(right("線程線程", 4)), 4u);
}

TEST(Printable, WrapsAtSpacesAndCutsLongWords) {
  EXPECT_THAT(wrap("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap("abcdefghij kl", 4), ElementsAre("abcd", "efgh", "ij", "kl"));
  EXPECT_THAT(wrap("", 4), ElementsAre(""));
  for (const std::string& line : wrap(std::string(65536, 'x') + " " + std::string(65536, 'y'), 90))
    EXPECT_LE(columns(line), 90u);
}

TEST(Printable, CommandsAreQuotedAsAShellWants) {
  EXPECT_EQ(command_text({"java", "-jar", "a.jar"}), "java -jar a.jar");
  EXPECT_EQ(command_text({"sh", "-c", "echo $HOME; ls", ""}), "sh -c 'echo $HOME; ls' ''");
  EXPECT_EQ(command_text({"it's"}), "'it'\\''s'");
  EXPECT_EQ(command_text({"a\x1b[2J"}), "'a\\x1b[2J'");
}

}  // namespace
}  // namespace heapspy::report
